// Which requests run: a queue in order of arrival, and those that were admitted, with a sequence and pages promised.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "run/schedule/job.hpp"

namespace kvasir::run {

class Admission {
 public:
  using Queue = std::deque<std::unique_ptr<Job>>;
  // At most `most` requests run, of at most `context` tokens each. The cache must outlive this.
  Admission(const kv::Cache& cache, std::int64_t context, std::int32_t most)
      : cache_(cache), context_(context), most_(most) {}

  void enqueue(std::unique_ptr<Job> job) { waiting_.push_back(std::move(job)); }
  // The queue's first request runs from now on, if there are a sequence and pages for it; else null. Alone it always
  // does: should its answer outgrow the pages, it ends.
  Job* admit();
  // Of those that run and are not over: how many there are, and the one that came last.
  std::int64_t alive() const;
  Job* youngest() const;
  void requeue(const Job& job);  // a running one is the queue's first from now on
  void sweep();                  // those that are over go

  const Jobs& running() const { return running_; }  // in order of arrival
  const Queue& waiting() const { return waiting_; }

 private:
  std::int64_t promised_pages(const Job& job) const;

  const kv::Cache& cache_;
  const std::int64_t context_;
  const std::int32_t most_;
  Jobs running_;
  Queue waiting_;
};

}  // namespace kvasir::run
