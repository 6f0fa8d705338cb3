// The rows with which the elements of a step enter the first layer, and what the embedding has for the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward/step_state.hpp"

namespace kvasir::model {

class Embedder {
 public:
  struct Scratch {
    float* joined;        // (max_tokens, 2 dim), with Embedding::join; (max_tokens, columns), with Embedding::given
    float* inputs;        // (max_tokens, input_width): of all layers, with Embedding::layers
    float* token_inputs;  // (threads, input_width)
    std::int64_t input_width;
    float* second;  // (max_tokens, dim): the second stream, with Embedding::second

    static Scratch place(ScratchPlan& plan);
  };
  Embedder(StepState& step, const Scratch& scratch);

  // The embedding's row of a token, (dim). REQUIRES: it is in range.
  void row(std::int32_t token, float* out) const;
  // To the residual stream: tokens' rows or those of their runs, with learned positions and types, normed.
  void embed(std::span<const Input> inputs);
  // To the residual stream in place of these: what Embedding::given makes of the rows that come with the tokens.
  void take_given(std::span<const Input> inputs);
  // Makes one row of those and the states that come with the tokens (Embedding::join).
  void join(std::span<const Input> inputs);
  // Makes what the embedding has for every layer (Embedding::layers) of the rows that embed() gave.
  void make_inputs(std::span<const Input> inputs);
  // rows.y = out(act(gate x) * this layer's part of that)
  void multiply_input(cpu::Rows& rows, const LayerInput& in, int layer) const;
  // What a layer that has it does with the second stream, before all else.
  void add_second(const cpu::Rows& rows, Second second) const;
  // Adds what pictures have for a layer.
  void add_deep(const cpu::Rows& rows, int layer) const;

 private:
  StepState& step_;
  Scratch s_;
  struct DeepRow {
    std::int64_t row;  // of the step
    const RowBlock* block;
    std::int64_t i;  // of the block
  };
  std::vector<DeepRow> deep_;      // ascending
  std::vector<std::int32_t> ids_;  // of every row, with Embedding::layers
};

}  // namespace kvasir::model
