// For tests of the scheduler's parts: requests without an engine, in a small cache whose rows are noise.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kv/cache_fixture.hpp"
#include "run/schedule/job.hpp"

namespace kvasir::run::testing {

inline const kv::CacheShape kSmallShape =
    kv::CacheShape::uniform(1, {.kv_heads = 1, .query_heads = 1, .head_dim = 16, .head_dim_v = 16});

class SmallCache {
 public:
  explicit SmallCache(std::int64_t tokens, int sequences, const char* codec = "f16")
      : cache_(team_, kSmallShape,
               {.k_codec = codec, .v_codec = codec, .max_tokens = tokens, .max_sequences = sequences}) {}

  kv::Cache& cache() { return cache_; }
  // A request for a prompt of n tokens, which are first, first + 1, ...
  std::unique_ptr<Job> ask(std::int64_t n, std::int32_t max_tokens = -1, std::int32_t first = 0) {
    auto job = std::make_unique<Job>();
    job->id = ++last_id_;
    for (std::int64_t i = 0; i < n; ++i) job->ids.push_back(first + static_cast<std::int32_t>(i));
    job->asked.request.prompt = job->ids;
    job->asked.request.max_tokens = max_tokens;
    job->prompt = n;
    return job;
  }
  // The same as it runs: with a sequence that has the first `computed` tokens.
  std::unique_ptr<Job> run(std::int64_t n, std::int64_t computed = 0) {
    std::unique_ptr<Job> job = ask(n);
    job->sequence = cache_.create();
    compute(*job, computed);
    return job;
  }
  // One whose answer has its first token, which is the next to be computed.
  std::unique_ptr<Job> answer(std::int64_t n) {
    std::unique_ptr<Job> job = run(n, n);
    job->ids.push_back(7);
    return job;
  }
  void compute(Job& job, std::int64_t count) {
    const kv::fixture::Tokens rows = kv::fixture::random_tokens(kSmallShape, static_cast<int>(count), job.id);
    if (count > 0) kv::fixture::step(cache_, {{job.sequence, &rows, 0, static_cast<int>(count)}});
  }

 private:
  Team team_{1};
  kv::Cache cache_;
  RequestId last_id_ = 0;
};

}  // namespace kvasir::run::testing
