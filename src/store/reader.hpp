// The threads that ask a backend for records, and the check of its answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/backend.hpp"
#include "store/counters.hpp"
#include "store/lookup.hpp"
#include "store/writer.hpp"

namespace kvasir::store {

class Reader {
 public:
  struct Options {
    int threads = 1;  // 0: answers come in the caller's thread
    std::size_t queue = 256;
    Clock::duration limit = std::chrono::milliseconds(250);  // of one batch, besides the caller's deadline
    Check check = Check::kFull;
  };
  // Records that wait in `writer` are found there. `damaged` is called with the keys of damaged records, which must be
  // erased. Throws Error(kMemory) when the system refuses a thread.
  Reader(Backend& backend, const Writer& writer, const Options& options, Counters& counters,
         std::function<void(std::vector<Key>)> damaged);
  ~Reader();  // questions that were not asked yet fail
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Asks; the answer goes to `state`. If the queue is full, the question fails at once.
  void submit(std::shared_ptr<Lookup::State> state);

 private:
  void run();
  void stop();  // what runs is over soon
  void answer(Lookup::State& state);
  std::vector<Found> ask(Lookup::State& state, Deadline deadline);
  static std::size_t mark_late(std::vector<Found>& found, const Lookup::State& state);
  Found examine(Answer answer, const Lookup::State& state);
  void count(const std::vector<Found>& found, const Lookup::State& state);
  void fail(Lookup::State& state, const std::string& why);

  Backend& backend_;
  const Writer& writer_;
  const Options options_;
  Counters& counters_;
  const std::function<void(std::vector<Key>)> damaged_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Lookup::State>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvasir::store
