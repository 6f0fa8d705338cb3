// What is made of the rows behind the last layer: logits, states, scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward/step_state.hpp"

namespace kvasir::model {

class OutputHead {
 public:
  // logits: (max_logits, vocab)
  static float* place(ScratchPlan& plan);
  OutputHead(const StepState& step, float* logits) : step_(step), logits_(logits) {}

  // Of the wanted rows, in the order of the inputs: (rows, vocab).
  std::span<const float> logits(std::span<const Input> inputs) const;
  // Of rows [first, first + count) of the step.
  std::span<const float> logits(int first, int count) const {
    return multiply(step_.scratch.x + first * step_.spec.dim, count,
                    step_.adapted() ? step_.scales.data() + first : nullptr);
  }
  // What the head reads of a row of the step: its state behind the last layer, normed. (dim)
  void state(int row, float* out) const;
  // Head::next of that. (Head::next.rows) REQUIRES: there is one.
  void next(int row, float* out) const;
  // What the model's head that ranks, ModelSpec::rank, makes of such a state: (labels). REQUIRES: there is one.
  std::vector<float> rank(std::span<const float> state) const;
  // A text's vector of its states (dim) that were pooled, by ModelSpec::projections: (ModelSpec::vector_width).
  std::vector<float> vector_of(std::vector<float> pooled) const;

 private:
  std::vector<float> multiply_one(const Linear& l, const std::vector<float>& x) const;
  // scales: of the adapters, of every row; null: they add to none.
  std::span<const float> multiply(const float* x, int count, const float* const* scales) const;
  void multiply_chosen(const float* x, float* logits) const;

  const StepState& step_;
  float* const logits_;
};

}  // namespace kvasir::model
