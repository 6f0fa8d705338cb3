// What the embedding has for every layer (model::LayerInputs), and how a layer adds its part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward/step_state.hpp"

namespace kvasir::model {

class LayerInputRows {
 public:
  struct Scratch {
    float* rows;         // (max_tokens, width): all layers'
    std::int64_t width;  // 0: the model has none
    float* tokens;       // (threads, width)

    static Scratch place(ScratchPlan& plan);
  };
  LayerInputRows(StepState& step, const Scratch& scratch);

  // From the rows that the embedding gave.
  void make(std::span<const Input> inputs);
  // rows.y = out(act(gate x) * this layer's part)
  void multiply(cpu::Rows& rows, const LayerInput& in, int layer) const;

 private:
  StepState& step_;
  Scratch s_;
  std::vector<std::int32_t> ids_;  // of every row
};

}  // namespace kvasir::model
