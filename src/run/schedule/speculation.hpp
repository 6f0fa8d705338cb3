// Speculative decoding: tells the drafters (run/drafting.hpp) of the requests that run, and holds their draft tokens
// against what is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "run/schedule/job.hpp"
#include "run/schedule/step_plan.hpp"

namespace kvasir::run {

class Speculation {
 public:
  // Both must outlive this. drafting: null, and there are no drafts.
  Speculation(Engine& engine, Drafting* drafting, std::int32_t running);

  // Throws Error(kBadInput) for drafters that there are not, or that cannot draft for this prompt; those that the
  // service has are none for such a prompt.
  void check(ServiceRequest& asked) const;
  // Drafts what follows the answers that go on, as far as every draft token may be cut off again: within the page of
  // the answer's token, the context and the answer's length.
  void draft(const Jobs& running);
  // Drafters that read states get those of `count` of the job's tokens, from `first` on, which are the step's rows from
  // `row` on.
  void show(Job& job, int row, std::int64_t first, std::int64_t count);
  // The tokens behind the job's first `before` ones were drawn without drafts; more: its answer goes on.
  void drawn(Job& job, std::int64_t before, bool more);
  // The logits of a step with draft tokens, its rows from `row` on: each gives the token that its step alone would have
  // given, as long as all draft tokens before it were right. What was computed behind a wrong one is cut off. False:
  // the answer is over.
  bool verify(Job& job, std::span<const float> logits, int row);
  void stepped(const StepPlan& plan, double seconds);  // it took so long
  void end(Job& job);

 private:
  void begin(Job& job);
  static const std::vector<std::string>* names_of(const Job& job) {
    return job.asked.drafters ? &*job.asked.drafters : nullptr;
  }

  Engine& engine_;
  Drafting* const drafting_;
  std::vector<Drafting::Text*> drafted_;  // of the step; kept, so that a step allocates nothing
};

}  // namespace kvasir::run
