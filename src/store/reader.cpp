#include "store/reader.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/threads.hpp"

namespace kvasir::store {

Reader::Reader(Backend& backend, const Writer& writer, const Options& options, Counters& counters,
               std::function<void(std::vector<Key>)> damaged)
    : backend_(backend), writer_(writer), options_(options), counters_(counters), damaged_(std::move(damaged)) {
  start_threads(
      threads_, options_.threads, "threads that read a tier", [this](int) { run(); }, [this] { stop(); });
}

void Reader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

Reader::~Reader() {
  stop();
  join_all(threads_);
  for (const auto& state : queue_) fail(*state, "the tier is closed");
}

void Reader::submit(std::shared_ptr<Lookup::State> state) {
  if (options_.threads == 0) {
    answer(*state);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() < options_.queue) {
      queue_.push_back(std::move(state));
      changed_.notify_one();
      return;
    }
  }
  fail(*state, "too many lookups wait for this tier");
}

void Reader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const auto state = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    answer(*state);
    lock.lock();
  }
}

void Reader::answer(Lookup::State& state) {
  const auto now = Clock::now();
  if (state.is_dropped() || now >= state.deadline) {
    counters_.late += state.keys.size();
    state.complete(std::vector<Found>(state.keys.size()));
    return;
  }
  try {
    auto found = ask(state, std::min(state.deadline, now + options_.limit));
    const std::size_t late = mark_late(found, state);
    count(found, state);
    counters_.late += late > 0 ? late : state.is_dropped() ? state.keys.size() : 0;
    state.complete(std::move(found));
  } catch (const std::exception& e) {
    fail(state, e.what());
  }
}

// A backend that gave up at the caller's own deadline has not failed: its answer is late, and whether the caller or the
// backend looks at the clock first must not show.
std::size_t Reader::mark_late(std::vector<Found>& found, const Lookup::State& state) {
  if (Clock::now() < state.deadline) return 0;
  std::size_t late = 0;
  for (Found& f : found) {
    if (f.outcome != Outcome::kFailed) continue;
    f.outcome = Outcome::kLate;
    ++late;
  }
  return late;
}

// What waits to be written is looked at first: a record that is written meanwhile is in the backend then.
std::vector<Found> Reader::ask(Lookup::State& state, Deadline deadline) {
  const std::size_t n = state.keys.size();
  std::vector<Found> found(n);
  std::vector<SharedBytes> queued(n);
  writer_.find(state.keys, queued);
  std::vector<Key> keys;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < n; ++i) {
    if (!queued[i]) {
      keys.push_back(state.keys[i]);
      places.push_back(i);
    } else if (state.with_bytes) {
      found[i] = examine({Outcome::kFound, std::move(queued[i])}, state);
    } else {
      found[i].outcome = Outcome::kFound;
    }
  }
  if (keys.empty()) return found;
  Status status;
  if (state.with_bytes) {
    std::vector<Answer> answers(keys.size());
    status = backend_.get(keys, deadline, answers);
    for (std::size_t k = 0; k < keys.size(); ++k) found[places[k]] = examine(std::move(answers[k]), state);
  } else {
    std::vector<Outcome> outcomes(keys.size(), Outcome::kFailed);
    status = backend_.contains(keys, deadline, outcomes);
    for (std::size_t k = 0; k < keys.size(); ++k) found[places[k]].outcome = outcomes[k];
  }
  if (!status.ok()) counters_.fail(status.why);
  return found;
}

// Runs in the tier's thread, so that pages of a file are read by it and not by whoever uses the record.
Found Reader::examine(Answer answer, const Lookup::State& state) {
  Found f;
  f.outcome = answer.outcome;
  if (answer.outcome != Outcome::kFound) return f;
  const Parsed parsed =
      parse_record(answer.bytes.bytes, options_.check, state.fingerprint ? &*state.fingerprint : nullptr);
  if (!parsed) {
    f.outcome = parsed.flaw == Flaw::kDamaged ? Outcome::kDamaged : Outcome::kForeign;
    return f;
  }
  f.bytes = std::move(answer.bytes);
  f.record = parsed.record;
  return f;
}

void Reader::count(const std::vector<Found>& found, const Lookup::State& state) {
  std::vector<Key> bad;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].outcome == Outcome::kDamaged) {
      ++counters_.damaged;
      bad.push_back(state.keys[i]);
    }
    if (found[i].outcome == Outcome::kForeign) ++counters_.foreign;
    if (!state.with_bytes) continue;
    if (found[i]) {
      ++counters_.hits;
      counters_.hit_bytes += found[i].bytes.bytes.size();
    } else {
      ++counters_.misses;
    }
  }
  if (!bad.empty()) damaged_(std::move(bad));
}

void Reader::fail(Lookup::State& state, const std::string& why) {
  counters_.fail(why);
  if (state.with_bytes) counters_.misses += state.keys.size();
  Found failed;
  failed.outcome = Outcome::kFailed;
  state.complete(std::vector<Found>(state.keys.size(), failed));
}

}  // namespace kvasir::store
