// A queue of records and the thread that writes them to a backend, in order and at a bounded rate. What waits can be
// read: a conversation goes on before a busy disk has taken its last turn.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "store/backend.hpp"
#include "store/counters.hpp"

namespace kvasir::store {

class Writer {
 public:
  struct Options {
    bool threaded = true;  // false: writes happen in the caller's thread, at once and at any rate
    std::uint64_t queue_bytes = std::uint64_t{64} << 20;
    std::uint64_t rate = 0;  // bytes per second; 0: any
    // Handed to the backend at once, or one record. A database copies what it writes: an eighth of the queue at most.
    std::uint64_t batch_bytes = std::uint64_t{16} << 20;
    Clock::duration limit = std::chrono::seconds(5);  // of one batch
    Clock::duration drain = std::chrono::seconds(8);  // for what is queued when the tier is closed
  };
  Writer(Backend& backend, const Options& options, Counters& counters);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Records of that size will come: the queue holds a few at least, whatever its bound.
  void expect(std::uint64_t bytes);

  enum class Taken { kStored, kQueued, kDropped, kRefused, kFailed };
  Taken put(Offer offer);
  // Whether there is room for a record of that size, for a caller that could also put it later. Half of the queue is
  // kept for callers that cannot.
  bool has_room(std::uint64_t bytes) const;
  void hint(std::function<Status(Deadline)> operation);  // dropped when many are waiting
  // Runs an operation in order with the puts, without the bound on the rate, and waits for its end.
  Status call(std::function<Status(Deadline)> operation, Deadline deadline);
  Status flush(Deadline deadline);
  // records[i]: what was last put under keys[i] and is not written yet, or nothing.
  void find(std::span<const Key> keys, std::span<SharedBytes> records) const;

  std::uint64_t queued_bytes() const;
  std::uint64_t queued_records() const;

 private:
  std::uint64_t most_queued() const { return std::max(options_.queue_bytes, least_); }  // REQUIRES: mutex_ is held
  struct Item {
    Offer offer;                                // of a put
    std::uint64_t number = 0;                   // of a put: its Waiting has it
    std::function<Status(Deadline)> operation;  // otherwise
    std::promise<Status> result;                // of a call
    bool is_call = false;
  };
  // The newest record of a key that is not written yet.
  struct Waiting {
    SharedBytes record;
    std::uint64_t number = 0;
    bool again = false;  // putting it once more is not the same: it is being written, or an operation follows it
  };
  void run();
  void follow();                                           // an operation is queued. REQUIRES: mutex_ is held
  bool wait_for_work(std::unique_lock<std::mutex>& lock);  // false: stop
  void write_batch(std::unique_lock<std::mutex>& lock);
  void run_operation(std::unique_lock<std::mutex>& lock);
  void store(const std::vector<Offer>& offers);
  Status guarded(const std::function<Status(Deadline)>& operation, Deadline deadline);

  Backend& backend_;
  const Options options_;
  Counters& counters_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::unordered_map<Key, Waiting> waiting_;
  std::uint64_t puts_ = 0;
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t queued_records_ = 0;
  std::uint64_t least_ = 0;  // see expect
  std::size_t hints_ = 0;
  int callers_ = 0;  // that wait for the end of a call
  bool stopping_ = false;
  std::uint64_t freed_ = 0;  // bytes written since free memory was given back
  Clock::time_point next_write_{};
  Clock::time_point drain_until_{};
  std::thread thread_;
};

}  // namespace kvasir::store
