#include "store/lookup.hpp"

#include <utility>

#include "base/check.hpp"

namespace kvasir::store {

void Lookup::State::complete(std::vector<Found> answers) {
  const std::lock_guard lock(mutex);
  found = std::move(answers);
  done = true;
  changed.notify_all();
}

bool Lookup::State::is_dropped() {
  const std::lock_guard lock(mutex);
  return dropped;
}

Lookup::Handle::~Handle() {
  const std::lock_guard lock(state->mutex);
  state->dropped = true;
  state->found.clear();
}

bool Lookup::ready() const {
  KVASIR_CHECK(handle_);
  const std::lock_guard lock(handle_->state->mutex);
  return handle_->state->done;
}

bool Lookup::wait(Deadline deadline) const {
  KVASIR_CHECK(handle_);
  State& s = *handle_->state;
  std::unique_lock lock(s.mutex);
  return s.changed.wait_until(lock, deadline, [&] { return s.done; });
}

std::vector<Found> Lookup::take(Deadline deadline) {
  KVASIR_CHECK(handle_);
  State& s = *handle_->state;
  std::vector<Found> out;
  std::unique_lock lock(s.mutex);
  if (s.changed.wait_until(lock, deadline, [&] { return s.done; }))
    out = std::move(s.found);
  else
    s.dropped = true;
  out.resize(s.keys.size());
  return out;
}

std::vector<Found> Lookup::take() {
  KVASIR_CHECK(handle_);
  return take(handle_->state->deadline);
}

}  // namespace kvasir::store
