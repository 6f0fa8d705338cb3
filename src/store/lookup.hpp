// A batch of questions to a tier and its answers: a ticket that can be polled, waited for until a deadline, or dropped.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "store/backend.hpp"

namespace kvasir::store {

// What a tier answers about one key.
struct Found {
  Outcome outcome = Outcome::kLate;
  SharedBytes bytes;  // when found by get: valid while a copy lives
  RecordView record;  // the same, read; points into bytes

  explicit operator bool() const { return outcome == Outcome::kFound; }
};

class Lookup {
 public:
  Lookup() = default;

  // All answers are there. Never waits.
  bool ready() const;
  // Waits until all answers are there or the deadline has come; true for the first.
  bool wait(Deadline deadline) const;
  // Waits likewise, then hands the answers over, one per key in the order asked. Those that have not come are kLate,
  // and the tier stops caring for them. Call it once.
  std::vector<Found> take(Deadline deadline);
  // With the deadline that the question had.
  std::vector<Found> take();

 private:
  friend class Tier;
  friend class Reader;
  struct State {
    std::vector<Key> keys;
    bool with_bytes = true;  // get, not contains
    std::optional<Fingerprint> fingerprint;
    Deadline deadline;

    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    bool dropped = false;  // nobody will ask for the answers
    std::vector<Found> found;

    void complete(std::vector<Found> answers);
    bool is_dropped();
  };
  // Drops the question with the last copy of the ticket.
  struct Handle {
    std::shared_ptr<State> state;
    explicit Handle(std::shared_ptr<State> s) : state(std::move(s)) {}
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
  };
  explicit Lookup(std::shared_ptr<State> state) : handle_(std::make_shared<Handle>(std::move(state))) {}

  std::shared_ptr<Handle> handle_;
};

}  // namespace kvasir::store
