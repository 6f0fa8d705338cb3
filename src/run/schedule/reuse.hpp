// Prefix reuse: what is known of a prompt is restored before it is computed, and what requests compute is offered to
// the library. Chunks are offered as they are sealed; tails at the end of the prompt, at the end of the answer, and at
// checkpoints (run/schedule/checkpoints.hpp), unless pages suffice.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "run/schedule/blending.hpp"
#include "run/schedule/sharing.hpp"

namespace kvasir::run {

class Reuse {
 public:
  // All must outlive this. library: null, and nothing is kept. on_found: called on any thread when a search has ended.
  Reuse(Engine& engine, store::Library* library, Sharing& sharing, Blending& blending, std::function<void()> on_found);

  // Asks what is known of the prompt. The job begins at once, unless the answer comes later ...
  void search(Job& job);
  // ... when those whose answer is there begin.
  void begin_searched(const Jobs& running);

  void offer(Job& job, store::Library::Offering offering);
  // What a step computed, and the tails at the checkpoints that it passed: those that are left lie ahead.
  void offer_step(Job& job);
  // The prompt is computed: later requests may have it.
  void offer_prompt(Job& job);
  // The end of the answer, and the beginning of its last page: it may come back changed near its end.
  void offer_end(Job& job);
  void forget(Job& job);   // nothing of it is offered from now on
  void abandon(Job& job);  // its search

  // So many tokens of prompts were computed: tails say what theirs cost.
  void learn_cost(std::int64_t tokens, double seconds);

 private:
  void begin(Job& job);
  std::vector<std::int64_t> checkpoints_of(const Job& job) const;
  void restore(Job& job, const store::Known& known);
  void explain_miss(Job& job, const store::Known& known) const;
  void offer_tail(Job& job, std::int64_t at);
  void pin(Job& job);

  Engine& engine_;
  store::Library* const library_;
  Sharing& sharing_;
  Blending& blending_;
  const std::function<void()> on_found_;
  double token_microseconds_ = 0;  // of prompts, a moving mean
};

}  // namespace kvasir::run
