// States of blocks of layers beside the residual stream, and what loops leave for their next pass (model::Residuals).
#pragma once

#include "model/forward/step_state.hpp"

namespace kvasir::model {

class ResidualStates {
 public:
  struct Scratch {
    float* blocks;           // (blocks, max_tokens, dim)
    float* kept;             // (kept, max_tokens, dim): of the pass before, x last
    float *q, *k, *v, *own;  // (max_tokens, dim): what a mixer reads; x, while a feed forward reads other rows
    float *message, *pair, *low, *forget, *gain;  // (max_tokens, ...): of gates

    static Scratch place(ScratchPlan& plan);
  };
  ResidualStates(const StepState& step, const Scratch& scratch) : step_(step), s_(scratch) {}

  // All of these take all rows of the step.
  // What a layer's queries, keys and values are made of, before norms: (rows, dim) each, valid until the next call.
  struct Read {
    const float *q, *k, *v;
  };
  Read read(cpu::Rows& rows, const Residuals& r) const;
  // Takes in what the mixer gave, rows.y, and makes x what the feed forward reads, before its norm.
  void take_mixed(cpu::Rows& rows, const Residuals& r) const;
  // Takes in what the feed forward gave, rows.y: x is the residual stream again.
  void take_fed(cpu::Rows& rows, const Residuals& r) const;

 private:
  struct States;  // what a mixture is of
  void begin_pass(const cpu::Rows& rows, const Residuals& r) const;
  void hear(cpu::Rows& rows, const Residuals& r, const MessageGate& gate, const float* query, const float* x,
            float* out) const;
  States now(int count) const;

  const StepState& step_;
  const Scratch s_;
};

}  // namespace kvasir::model
