// Requests of one tenant that run together and begin alike compute the common part once: the later one, the follower,
// waits until its leader has it, then takes a fork of its sequence.
#pragma once

#include <cstdint>

#include "run/schedule/job.hpp"

namespace kvasir::run {

class Sharing {
 public:
  // running: in order of arrival. Both must outlive this.
  Sharing(kv::Cache& cache, const Jobs& running) : cache_(cache), running_(running) {}

  // The running job that has the longest beginning in common and can still give it.
  Job::Lead find_leader(const Job& job) const;
  // Where a job that computes its tokens up to `stop` has to stop for a follower that parts before.
  std::int64_t stop_of(const Job& leader, std::int64_t stop) const;
  void start_followers(Job& leader);  // those whose part is computed take it
  void leave_followers(Job& leader);  // it ends before they have their part: they go on by themselves

 private:
  kv::Cache& cache_;
  const Jobs& running_;
};

}  // namespace kvasir::run
