// What the threads that ask and the one that computes share, behind one lock: arrived requests, and what is counted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "run/schedule/job.hpp"

namespace kvasir::run {

class SharedState {
 public:
  // At most `running` requests are computed together, `waiting` more are queued.
  SharedState(std::int32_t running, std::int32_t waiting) : most_running_(running), most_waiting_(waiting) {}

  // Any thread.
  RequestId put(std::unique_ptr<Job> job);  // throws Error(kBusy) when the queue is full, and after refuse() and stop()
  void cancel(RequestId id);
  void wake_searched();  // a search has ended, or some rows are computed
  bool drain(double seconds);
  void refuse();
  void stop();
  ServiceStats stats() const;

  // The engine's thread.
  // Waits until there is something to take, or `work`, or a search has ended, or rows are computed. False: stop() was
  // called.
  bool wait(bool work);
  std::pair<Jobs, std::vector<RequestId>> take();  // what arrived and what was cancelled
  bool quiet() const;                              // nothing arrived, and nobody called stop()
  void publish(std::size_t running, std::size_t waiting, Engine& engine);
  void count_request(const Outcome& outcome, std::int64_t computed);
  // A step with so many answers, which it gave so many tokens, and so many rows of prompts.
  void count_step(std::int64_t answers, std::int64_t answer_tokens, std::int64_t prompt_rows, double seconds);
  void count_preemption();

 private:
  const std::int64_t most_running_, most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;   // something arrived, or stop
  std::condition_variable empty_;  // nothing is left
  Jobs arrived_;
  std::vector<RequestId> cancelled_;
  std::int64_t queued_ = 0;  // arrived and waiting
  bool searched_ = false;
  bool draining_ = false;
  bool stop_ = false;
  RequestId next_id_ = 1;
  ServiceStats stats_;
};

}  // namespace kvasir::run
