#include "kvasir/kv_cache.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "kv/cache_fixture.hpp"

namespace kvasir {
namespace kv_cache_test {

constexpr int kKv = 2, kHeads = 6, kSize = 64, kLayers = 2;
const std::vector<KvLayer> kShape(kLayers, {.kv_heads = kKv, .query_heads = kHeads, .head_dim = kSize});

using Floats = std::vector<float>;

struct Text {
  explicit Text(int n, std::uint64_t seed = 1) {
    for (int l = 0; l < kLayers; ++l) {
      const auto salt = seed * 100 + static_cast<std::uint64_t>(10 * l);
      q.push_back(fill(n * kHeads * kSize, salt));
      k.push_back(fill(n * kKv * kSize, salt + 1));
      v.push_back(fill(n * kKv * kSize, salt + 2));
    }
  }
  static Floats fill(int n, std::uint64_t seed) {
    Floats x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 2 * kv::fixture::noise(seed, i);
    return x;
  }
  std::vector<Floats> q, k, v;
};

// Tokens [from, from + n) of `text`; outputs of both layers behind each other.
Floats feed(KvCache& cache, KvSequence s, const Text& text, int from, int n, bool generated = false) {
  cache.begin({{s, n, generated}});
  Floats all;
  for (int l = 0; l < kLayers; ++l) {
    Floats out(static_cast<std::size_t>(n) * kHeads * kSize);
    const auto layer = static_cast<std::size_t>(l);
    cache.attend(l, text.q[layer].data() + from * kHeads * kSize, text.k[layer].data() + from * kKv * kSize,
                 text.v[layer].data() + from * kKv * kSize, out.data());
    all.insert(all.end(), out.begin(), out.end());
  }
  cache.commit();
  return all;
}

// Of the last of n tokens in layer 0, in float64.
std::vector<double> reference(const Text& t, int n) {
  std::vector<double> out;
  for (int h = 0; h < kHeads; ++h) {
    const int kv = h / (kHeads / kKv);
    std::vector<double> weights(static_cast<std::size_t>(n));
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      double dot = 0;
      for (int c = 0; c < kSize; ++c)
        dot += double{t.q[0][static_cast<std::size_t>(((n - 1) * kHeads + h) * kSize + c)]} *
               double{t.k[0][static_cast<std::size_t>((i * kKv + kv) * kSize + c)]};
      sum += weights[static_cast<std::size_t>(i)] = std::exp(dot / std::sqrt(double{kSize}));
    }
    for (int c = 0; c < kSize; ++c) {
      double x = 0;
      for (int i = 0; i < n; ++i)
        x += weights[static_cast<std::size_t>(i)] / sum *
             double{t.v[0][static_cast<std::size_t>((i * kKv + kv) * kSize + c)]};
      out.push_back(x);
    }
  }
  return out;
}

template <class F>
std::string refused(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(KvCache, AttendsLikeFloat64) {
  const int n = 700;
  const Text text(n);
  struct Case {
    const char* codecs;
    double most;  // relative L2
  };
  for (const Case& c : {Case{"f32", 1e-5}, Case{"f16", 2e-3}, Case{"balanced", 0.2}}) {
    KvCache cache(kShape, {.codecs = c.codecs, .max_tokens = 1024, .step_tokens = 1024, .threads = 2});
    const Floats out = feed(cache, cache.create(), text, 0, n);
    const std::vector<double> want = reference(text, n);
    double difference = 0, size = 0;
    const float* row = out.data() + (n - 1) * kHeads * kSize;
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference += (row[i] - want[i]) * (row[i] - want[i]);
      size += want[i] * want[i];
    }
    EXPECT_LT(std::sqrt(difference / size), c.most) << c.codecs;
    EXPECT_GT(difference, 0);
  }
}

TEST(KvCache, StepsForksCutsAndBytesChangeNothing) {
  for (const char* codecs : {"f32", "balanced", "kivi2"}) {
    const int n = 600;
    const Text text(n + 1);
    const KvCacheOptions options{.codecs = codecs, .max_tokens = 4096, .max_sequences = 8};
    KvCache cache(kShape, options);
    const KvSequence a = cache.create(), b = cache.create();
    feed(cache, a, text, 0, 512);
    feed(cache, a, text, 512, n - 512);
    for (int i = 0; i < n; i += 100) feed(cache, b, text, i, 100);
    const std::vector<std::byte> saved = cache.save(a);
    EXPECT_EQ(saved, cache.save(b)) << codecs;
    const KvSequence fork = cache.fork(a);
    KvCache other(kShape, options);
    const KvSequence restored = other.restore(saved);
    const Floats next = feed(cache, a, text, n, 1, true);
    EXPECT_EQ(feed(cache, fork, text, n, 1, true), next) << codecs;
    EXPECT_EQ(feed(other, restored, text, n, 1, true), next) << codecs;
    ASSERT_TRUE(cache.can_truncate(a, n));
    cache.truncate(a, n);
    EXPECT_EQ(cache.save(a), saved) << codecs;
    EXPECT_EQ(cache.length(a), n);
    EXPECT_GT(cache.sealed_tokens(a), 0);
    EXPECT_EQ(cache.page(a, 0).empty(), false);
  }
}

// Whole groups of eight pages are folded by the first OpenCL device. Nothing else may change.
TEST(KvCache, ADeviceHasTheSameBits) {
  const int n = 1300;
  const Text text(n + 3);
  for (const char* codecs : {"kivi2", "balanced"}) {
    const KvCacheOptions options{.codecs = codecs, .max_tokens = 8192, .max_sequences = 4, .step_tokens = 1300};
    KvCacheOptions with = options;
    with.device = "opencl";
    std::unique_ptr<KvCache> device;
    try {
      device = std::make_unique<KvCache>(kShape, with);
    } catch (const std::runtime_error& e) {
      GTEST_SKIP() << "SKIPPED: " << e.what();
    }
    std::vector<Floats> all[2];
    std::vector<std::byte> saved[2];
    KvCache host(kShape, options);
    int at = 0;
    for (KvCache* cache : {&host, device.get()}) {
      std::vector<Floats>& seen = all[at];
      const KvSequence a = cache->create();
      seen.push_back(feed(*cache, a, text, 0, n));
      seen.push_back(feed(*cache, a, text, n, 1, true));
      const KvSequence fork = cache->fork(a);
      seen.push_back(feed(*cache, a, text, n + 1, 1, true));
      seen.push_back(feed(*cache, fork, text, n + 1, 1, true));
      cache->truncate(a, n);
      seen.push_back(feed(*cache, a, text, n, 3, true));
      saved[at] = cache->save(a);
      cache->release(a);
      seen.push_back(feed(*cache, fork, text, n + 2, 1, true));
      cache->release(fork);
      const KvSequence back = cache->restore(saved[at]);
      cache->truncate(back, n);
      seen.push_back(feed(*cache, back, text, n, 1, true));
      ++at;
    }
    EXPECT_EQ(all[0], all[1]) << codecs;
    EXPECT_EQ(saved[0], saved[1]) << codecs;
    const KvCacheStats stats = device->stats();
    EXPECT_FALSE(stats.device.empty());
    EXPECT_EQ("", stats.device_lost);
    EXPECT_GT(stats.device_pages, 0);
    EXPECT_GT(stats.device_groups, 0u) << codecs;
    EXPECT_EQ("", host.stats().device);
    EXPECT_EQ(0u, host.stats().device_groups);
  }
  EXPECT_NE(refused([] { KvCache(kShape, {.device = "tpu"}); }).find("expected cpu, gpu"), std::string::npos);
}

TEST(KvCache, CountsWhatItHolds) {
  KvCache cache(kShape, {.codecs = "kivi2", .max_tokens = 1024, .max_sequences = 2});
  const std::int64_t free = cache.stats().free_pages;
  const KvSequence s = cache.create();
  feed(cache, s, Text(512), 0, 512);
  EXPECT_EQ(cache.stats().tokens, 512);
  EXPECT_EQ(cache.stats().sealed_tokens, cache.sealed_tokens(s));
  EXPECT_LT(cache.stats().free_pages, free);
  EXPECT_LT(cache.stats().k_bits, 4);
  cache.reset();
  EXPECT_EQ(cache.stats().free_pages, free);
  EXPECT_NE(refused([&] { cache.length(s); }), "accepted");
}

TEST(KvCache, SaysWhatIsWrongAndGoesOn) {
  EXPECT_NE(refused([] { KvCache({}, {}); }), "accepted");
  EXPECT_NE(
      refused([] { KvCache({{.kv_heads = 2, .query_heads = 3, .head_dim = 64}}, {}); }).find("layers[0].query_heads"),
      std::string::npos);
  EXPECT_NE(refused([] { KvCache(kShape, {.codecs = "nonsense"}); }).find("nonsense"), std::string::npos);
  EXPECT_NE(refused([] { KvCache(kShape, {.sinks = 200}); }), "accepted");
  KvCache cache(kShape, {.codecs = "f32", .max_tokens = 256, .max_sequences = 1, .step_tokens = 64});
  const Text text(300);
  const KvSequence s = cache.create();
  EXPECT_THROW(cache.create(), std::runtime_error);
  EXPECT_NE(refused([&] { cache.begin({}); }), "accepted");
  EXPECT_NE(refused([&] { cache.begin({{s, 65}}); }).find("slices[0].count"), std::string::npos);
  EXPECT_NE(refused([&] { cache.begin({{s, 1}, {s, 1}}); }).find("slices[1]"), std::string::npos);
  EXPECT_NE(refused([&] { cache.begin({{KvSequence(), 1}}); }), "accepted");
  EXPECT_NE(refused([&] { cache.commit(); }), "accepted");
  feed(cache, s, text, 0, 64);
  cache.begin({{s, 1}});
  EXPECT_NE(refused([&] { cache.commit(); }).find("layer 0"), std::string::npos);
  EXPECT_NE(refused([&] { cache.attend(2, nullptr, nullptr, nullptr, nullptr); }), "accepted");
  EXPECT_NE(refused([&] { cache.attend(0, nullptr, nullptr, nullptr, nullptr); }), "accepted");
  EXPECT_NE(refused([&] { cache.create(); }), "accepted");
  cache.abort();
  EXPECT_EQ(cache.length(s), 0);
  for (int i = 0; i < 256; i += 64) feed(cache, s, text, i, 64);
  EXPECT_THROW(cache.begin({{s, 1}}), std::runtime_error);
  EXPECT_EQ(cache.length(s), 256);

  std::vector<std::byte> saved = cache.save(s);
  KvCache other(kShape, {.codecs = "f16", .max_tokens = 256});
  EXPECT_NE(refused([&] { other.restore(saved); }).find("other layers, codecs"), std::string::npos);
  cache.release(s);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{10}, saved.size() / 2, saved.size() - 1})
    EXPECT_NE(refused([&] { cache.restore(std::span(saved).first(cut)); }), "accepted");
  saved[saved.size() / 2] ^= std::byte{1};
  EXPECT_NE(refused([&] { cache.restore(saved); }).find("damaged"), std::string::npos);
  saved[saved.size() / 2] ^= std::byte{1};
  EXPECT_EQ(cache.length(cache.restore(saved)), 256);
}

}  // namespace kv_cache_test
}  // namespace kvasir
