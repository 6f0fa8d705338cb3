// The feed forward of a layer: dense, of experts, or the sum of both.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "cpu/experts.hpp"
#include "model/forward/step_state.hpp"
#include "model/layer_weights.hpp"

namespace kvasir::model {

// For tests of what falls otherwise: `chosen(e, row)` is called for every row of a step with its experts of `e`, in
// ascending order; `bias(e, row)`, if it gives any, is (experts) in place of Experts::choice_bias; `scores(e, row, x)`
// sees what the router gave, x (experts), and may change it. In any thread.
struct ExpertHooks {
  std::function<void(const Experts& e, std::int64_t row, float* scores)> scores;
  std::function<const float*(const Experts& e, std::int64_t row)> bias;
  std::function<void(const Experts& e, std::int64_t row, std::span<const std::int32_t> experts)> chosen;
};

// Feed forwards of which each row uses a few of many (model::Experts).
class ExpertFeed {
 public:
  struct Scratch {
    float *narrow, *narrow_y, *widened;  // with Experts::into: what experts read and give, and that through `out`
    cpu::ExpertScratch experts;

    static Scratch place(ScratchPlan& plan);
  };
  ExpertFeed(const StepState& step, LayerWeights& weights, const Scratch& scratch);

  // rows.y = what the shared expert, if there is one, and the chosen ones give for norm(x), x being the residual rows.
  // REQUIRES: all rows of the step, by the team.
  void run(cpu::Rows& rows, const Norm& norm, const Experts& e, int layer);

  void hook(ExpertHooks hooks) { hooks_ = std::move(hooks); }
  // Packed bytes of experts that were read since the last call.
  std::int64_t take_bytes_read() { return products_.take_bytes_read(); }

 private:
  void prefetch(cpu::Rows& rows, int layer);
  void prepare(cpu::Rows& rows, const Norm& norm, const Experts& e);
  void add_chosen(cpu::Rows& rows, const Norm& norm, const Experts& e, int layer);
  void choose(const Experts& e, std::int64_t begin, std::int64_t end) const;

  const StepState& step_;
  LayerWeights& weights_;
  const Scratch s_;
  cpu::ExpertProducts products_;
  ExpertHooks hooks_;
};

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
