// What a cache occupies when it is full is what its plan says, and nothing else grows with the context: no history in
// another form, no copy per step.
#include <gtest/gtest.h>

#include "base/rss.hpp"
#include "kv/cache_fixture.hpp"

namespace kvasir::kv {
namespace {

TEST(CacheMemory, ProcessGrowsByThePlanOver32KTokens) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  constexpr int kTokens = 32768, kChunk = 512;
  const CacheShape shape = CacheShape::uniform(2, {.kv_heads = 8, .query_heads = 8, .head_dim = 64, .head_dim_v = 64});
  Team team(2);
  const fixture::Tokens tokens = fixture::random_tokens(shape, kChunk, 1);
  const CacheOptions options{.k_codec = "rq4", .v_codec = "int4_token", .max_tokens = kTokens};
  {
    Cache warm_up(team, shape, options);  // the test's own arrays and the threads' stacks
    fixture::step(warm_up, {{warm_up.create(), &tokens, 0, kChunk}});
  }
  const std::uint64_t before = process_rss().current;
  Cache cache(team, shape, options);
  Sequence* s = cache.create();
  std::uint64_t halfway = 0;
  for (int n = 0; n < kTokens; n += kChunk) {
    fixture::step(cache, {{s, &tokens, 0, kChunk}});
    if (n + kChunk == kTokens / 2) halfway = process_rss().current;
  }
  const auto grown = static_cast<double>(process_rss().current - before);
  const auto plan = static_cast<double>(cache.memory().total());
  EXPECT_NEAR(grown / plan, 1, 0.02) << "plan " << plan << ", scratch " << cache.memory().scratch_bytes;
  // The second half of the run occupies its pages and nothing more, but for a huge page at either end.
  const double pages = static_cast<double>(cache.memory().chunk_bytes) * (kTokens / 2 / 128);
  EXPECT_NEAR(static_cast<double>(process_rss().current - halfway), pages, 2 * 2097152.0);
}

}  // namespace
}  // namespace kvasir::kv
