// How a request comes to the engine and leaves it: start, preemption, context shift, end. Whatever leaves gives its
// sequence back; what it computed is offered before, and those that wait for it are left to themselves.
#pragma once

#include <string>

#include "run/schedule/awaited_rows.hpp"
#include "run/schedule/reuse.hpp"
#include "run/schedule/shared_state.hpp"
#include "run/schedule/speculation.hpp"

namespace kvasir::run {

class Lifecycle {
 public:
  // All must outlive this.
  Lifecycle(Engine& engine, const ModelCard& card, Sharing& sharing, Reuse& reuse, Speculation& speculation,
            AwaitedRows& rows, SharedState& shared)
      : engine_(engine),
        card_(card),
        sharing_(sharing),
        reuse_(reuse),
        speculation_(speculation),
        rows_(rows),
        shared_(shared) {}

  void start(Job& job);    // it was admitted; nothing happens when that was not the first time
  void preempt(Job& job);  // it is computed again later
  // The context is full: the older half of what stands behind the tokens to keep goes, and the rest is a prompt that is
  // computed from its beginning. So what follows is what a request with these tokens would get. Nothing of it is kept:
  // nobody asks for such a text.
  void shift(Job& job);
  // With what its answer says, as cancelled when that is not over, or with an error. Once is enough.
  void finish(Job& job, Failure failure = Failure::kNone, std::string error = {});

 private:
  void release(Job& job);
  PageCounts count_pages(const Job& job) const;

  Engine& engine_;
  const ModelCard& card_;
  Sharing& sharing_;
  Reuse& reuse_;
  Speculation& speculation_;
  AwaitedRows& rows_;
  SharedState& shared_;
};

}  // namespace kvasir::run
