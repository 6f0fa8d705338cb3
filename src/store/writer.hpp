// A queue of records and the thread that writes them to a backend, in order and at a bounded rate.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
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
    std::uint64_t rate = 0;                               // bytes per second; 0: any
    std::uint64_t batch_bytes = std::uint64_t{16} << 20;  // handed to the backend at once, or one record
    Clock::duration limit = std::chrono::seconds(5);      // of one batch
    Clock::duration drain = std::chrono::seconds(3);      // for what is queued when the tier is closed
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

  std::uint64_t queued_bytes() const;
  std::uint64_t queued_records() const;

 private:
  std::uint64_t most_queued() const { return std::max(options_.queue_bytes, least_); }  // REQUIRES: mutex_ is held
  struct Item {
    Offer offer;                                // of a put
    std::function<Status(Deadline)> operation;  // otherwise
    std::promise<Status> result;                // of a call
    bool is_call = false;
  };
  void run();
  bool wait_for_turn(std::unique_lock<std::mutex>& lock);  // false: stop
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
  // Envelopes of the records that wait, so that the same record is not queued twice. Every operation that is queued
  // empties it: a put after the operation is not the same as a put before it.
  std::unordered_map<Key, std::vector<std::byte>> waiting_;
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t queued_records_ = 0;
  std::uint64_t least_ = 0;  // see expect
  std::size_t hints_ = 0;
  int callers_ = 0;  // that wait for the end of a call
  bool stopping_ = false;
  Clock::time_point next_write_{};
  Clock::time_point drain_until_{};
  std::thread thread_;
};

}  // namespace kvasir::store
