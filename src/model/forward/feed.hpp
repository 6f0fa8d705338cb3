// The feed forward of a layer: dense, of experts, or the sum of both.
#pragma once

#include <cstdint>

#include "model/forward/experts.hpp"
#include "model/forward/step_state.hpp"

namespace kvasir::model {

class FeedForward {
 public:
  struct Scratch {
    float* dense;  // (max_tokens, dim), of DenseAndExperts
    ExpertFeed::Scratch experts;

    static Scratch place(ScratchPlan& plan);
  };
  FeedForward(const StepState& step, LayerWeights& weights, const Scratch& scratch)
      : step_(step), dense_(scratch.dense), experts_(step, weights, scratch.experts) {}

  // Makes the hidden rows of a dense one from the residual rows, which may change then; of others nothing.
  void begin(cpu::Rows& rows, const LayerSpec& layer) const;
  // rows.y = what the feed forward gives, without the bias that is returned. REQUIRES: there is one; begin().
  const Vector& finish(cpu::Rows& rows, int layer);

  ExpertFeed& experts() { return experts_; }

 private:
  void run_both(cpu::Rows& rows, const Norm& norm, const DenseAndExperts& both, int layer);
  void make_hidden(cpu::Rows& rows, const Norm& norm, const Dense& dense) const;

  const StepState& step_;
  float* const dense_;
  ExpertFeed experts_;
};

}  // namespace kvasir::model
