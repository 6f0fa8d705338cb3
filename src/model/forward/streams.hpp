// Several residual streams (model::StreamMixer), and the rows of the last tokens' ids that are added to them
// (model::Ngrams).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward/mixers.hpp"
#include "model/forward/step_state.hpp"

namespace kvasir::model {

class Streams {
 public:
  struct Scratch {
    float *x, *normed, *wide;  // (max_tokens, count * dim)
    float* low;                // (max_tokens, rank)
    float* shares;             // (max_tokens, count)
    float* ids;                // (max_tokens, longest - 1)
    float* rows;               // (max_tokens, Ngrams::width)
    float* value;              // (max_tokens, dim)

    static Scratch place(ScratchPlan& plan);
  };
  Streams(const StepState& step, const Scratch& scratch);

  // Makes all streams of what is the residual stream, and keeps the ids of the step's tokens.
  void begin(std::span<const Input> inputs);
  // All of these take all rows of the step.
  // Makes the residual stream what a mixer or a feed forward reads, and keeps the streams' shares of what it will give.
  void read(cpu::Rows& rows, const StreamMixer& mixer) const;
  // Adds what it gave, rows.y, to every stream.
  void add(const cpu::Rows& rows, const StreamMixer& mixer) const;
  void add_ngrams(cpu::Rows& rows, const MixerRows& m, const Ngrams& g) const;

 private:
  void look_up(const cpu::Rows& rows, const MixerRows& m, const Ngrams& g) const;
  void look_up_row(std::int64_t row, const Ngrams& g) const;
  void gate(std::int64_t row, const Ngrams& g) const;

  const StepState& step_;
  const Scratch s_;
  std::vector<std::int32_t> ids_;  // of every row of the step, with Ngrams
};

}  // namespace kvasir::model
