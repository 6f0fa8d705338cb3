// The self-test that stands before blending.
#include "run/blend_gate.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using testing::kBooks;

std::unique_ptr<Engine> engine(const std::string& kv) {
  EngineOptions o;
  o.model = kBooks;
  o.ctx = 2048;
  o.kv = kv;
  o.threads = 2;
  return std::make_unique<Engine>(o, Engine::Needs{.sequences = 3, .pool_tokens = 6144, .logits = 16});
}

TEST(BlendGate, TurnedKeysAreRightAndRepairComesNearer) {
  for (const char* kv : {"f32", "balanced"}) {
    SCOPED_TRACE(kv);
    const auto e = engine(kv);
    const BlendVerdict v = test_blend(*e, {}, {0.15f, 0.5f, 1.0f});
    EXPECT_LT(v.turned, std::string(kv) == "f32" ? 1e-3 : 0.05);
    ASSERT_GE(v.trials.size(), 5u);
    EXPECT_EQ(v.trials[0].name, "naive");
    EXPECT_EQ(v.trials[0].computed, 0.0);
    const BlendTrial& all = v.trials.back();
    EXPECT_EQ(all.ratio, 1.0f);
    EXPECT_LT(all.kl, std::string(kv) == "f32" ? 1e-5 : 0.02);  // sealed pages lie elsewhere
    EXPECT_GT(v.trials[0].kl, all.kl);
    for (const BlendTrial& t : v.trials) EXPECT_LE(t.kl, v.trials[0].kl * 1.5) << t.name;
    EXPECT_EQ(v.allowed, v.why.empty());
    e->cache().check_integrity();
    EXPECT_EQ(e->cache().stats().free_pages, e->cache().memory().pages);
  }
}

// However often it is stopped, it comes to the same verdict, and leaves the cache as it was in between.
TEST(BlendGate, ItCanBeStoppedAnywhere) {
  const auto e = engine("balanced");
  const BlendVerdict want = test_blend(*e, {});
  BlendTest test(*e, {});
  int calls = 0;
  for (int patience = 0;; ++patience) {
    int left = patience;
    ++calls;
    if (test.run([&] { return left-- > 0; })) break;
    e->cache().check_integrity();
    EXPECT_EQ(e->cache().stats().free_pages, e->cache().memory().pages);
    ASSERT_LT(patience, 200);
  }
  EXPECT_GT(calls, 3);
  EXPECT_EQ(test.verdict().allowed, want.allowed);
  EXPECT_EQ(test.verdict().turned, want.turned);
  ASSERT_EQ(test.verdict().trials.size(), want.trials.size());
  EXPECT_EQ(test.verdict().trials.back().kl, want.trials.back().kl);
}

TEST(BlendGate, WithoutRoomItIsAskedAgainLater) {
  EngineOptions o;
  o.model = kBooks;
  o.ctx = 256;
  o.threads = 1;
  Engine e(o, Engine::Needs{.sequences = 1});
  EXPECT_THROW(test_blend(e, {}), Error);
  e.cache().check_integrity();
  EXPECT_EQ(e.cache().stats().free_pages, e.cache().memory().pages);
}

}  // namespace
}  // namespace kvasir::run
