// include/kvasir/codecs.hpp with every codec of the build, against attention in double precision.
#include "kvasir/codecs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "base/gaussian.hpp"
#include "kv/cache.hpp"
#include "tensor/buffer.hpp"

namespace kvasir {
namespace {

std::size_t size(int batch, int heads, std::int64_t tokens, int d) {
  return static_cast<std::size_t>(batch * heads * tokens * d);
}

struct Reference {
  std::vector<double> out;
  std::vector<double> lse;
};

// k, v [items][tokens][d], q [items][g][d]
Reference reference(const std::vector<float>& q, int items, int g, const std::vector<float>& k,
                    const std::vector<float>& v, std::int64_t tokens, int d, int dv, double scale) {
  Reference r;
  for (int i = 0; i < items * g; ++i) {
    const float* a = &q[static_cast<std::size_t>(i * d)];
    std::vector<double> p;
    double top = -INFINITY;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float* b = &k[static_cast<std::size_t>((i / g * tokens + t) * d)];
      double s = 0;
      for (int c = 0; c < d; ++c) s += static_cast<double>(a[c]) * b[c];
      p.push_back(scale * s);
      top = std::max(top, p.back());
    }
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - top);
    r.lse.push_back(top + std::log(sum));
    for (int c = 0; c < dv; ++c) {
      double x = 0;
      for (std::int64_t t = 0; t < tokens; ++t)
        x += p[static_cast<std::size_t>(t)] * v[static_cast<std::size_t>((i / g * tokens + t) * dv + c)];
      r.out.push_back(x / sum);
    }
  }
  return r;
}

template <class A, class B>
double relative(const A& got, const B& want) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    energy += static_cast<double>(want[i]) * want[i];
  }
  return std::sqrt(error / energy);
}

// `name` where it stores this side, else f16.
KvCodec codec_for(const std::string& name, int d, KvSide side) {
  try {
    return KvCodec(name, d, side);
  } catch (const std::invalid_argument&) {
    return KvCodec("f16", d, side);
  }
}

TEST(KvCodecs, AttendIsAttentionOverWhatIsStored) {
  constexpr int kBatch = 2, kHeads = 2, kGroup = 3;
  for (const auto& info : kv_codecs()) {
    for (const int d : {64, 128}) {
      for (const std::int64_t tokens : {1, 100, 128, 300, 1100}) {
        SCOPED_TRACE(info.name + " d " + std::to_string(d) + " tokens " + std::to_string(tokens));
        const KvCodec keys = codec_for(info.name, d, KvSide::kKeys);
        const KvCodec values = codec_for(info.name, d, KvSide::kValues);
        const auto k = gaussian(size(kBatch, kHeads, tokens, d), 1);
        const auto v = gaussian(k.size(), 2);
        const auto q = gaussian(size(kBatch, kHeads * kGroup, 1, d), 3);
        const PackedKv pk(keys, k.data(), kBatch, kHeads, tokens);
        const PackedKv pv(values, v.data(), kBatch, kHeads, tokens);
        EXPECT_EQ(pk.sealed_tokens(), tokens / 128 * 128);
        std::vector<float> stored_k(k.size()), stored_v(v.size());
        pk.dequantize(stored_k.data());
        pv.dequantize(stored_v.data());
        if (info.lossless) {
          EXPECT_LT(relative(stored_k, k), 0.005);
        } else {
          // One sign per channel tells a Gaussian to sqrt(pi / 2 - 1) = 0.756 at best when it has to be unbiased
          // (qjl1).
          EXPECT_LT(relative(stored_k, k), 0.78);
          EXPECT_LT(relative(stored_v, v), 0.7);
        }
        // The tokens behind the last page are 16-bit floats whatever the codec.
        const std::size_t sealed = static_cast<std::size_t>(pk.sealed_tokens() * d);
        for (std::size_t i = sealed; i < static_cast<std::size_t>(tokens * d); ++i)
          ASSERT_NEAR(stored_k[i], k[i], 0.005 * std::abs(k[i]) + 1e-7);

        const Reference want = reference(q, kBatch * kHeads, kGroup, stored_k, stored_v, tokens, d, d, 0.3);
        std::vector<float> out(q.size(), -7.0f), lse(kBatch * kHeads * kGroup, -7.0f);
        attend(q.data(), kHeads * kGroup, pk, pv, out.data(), {.scale = 0.3f, .lse = lse.data()});
        // Codecs that are not lossless round queries and weights to 8 bits.
        EXPECT_LT(relative(out, want.out), info.lossless ? 1e-5 : 0.03);
        // A query in 8 bits is off by up to max / 254 in every number, evenly: 4.5 standard deviations of a score.
        const double largest =
            *std::max_element(q.begin(), q.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
        const double rounding = 4.5 * 0.3 * std::sqrt(d / 12.0) * std::abs(largest) / 127;
        for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], want.lse[i], info.lossless ? 1e-5 : rounding);
      }
    }
  }
}

// A cache without window and sinks holds the same pages: the same bits.
TEST(KvCodecs, BitsAreThoseOfACache) {
  constexpr int kHeads = 2, kGroup = 2, d = 64;
  constexpr std::int64_t kTokens = 1300;
  for (const auto& info : kv_codecs()) {
    const KvCodec keys = codec_for(info.name, d, KvSide::kKeys);
    const KvCodec values = codec_for(info.name, d, KvSide::kValues);
    const auto k = gaussian(size(1, kHeads, kTokens, d), 4);
    const auto v = gaussian(k.size(), 5);
    const auto q = gaussian(size(1, kHeads * kGroup, 1, d), 6);
    Team team(2);
    kv::Cache cache(team, kv::CacheShape::uniform(1, {kHeads, kHeads * kGroup, d, d}),
                    {.k_codec = keys.spec(), .v_codec = values.spec(), .window = 0, .sinks = 0, .max_tokens = 2048});
    kv::Sequence* sequence = cache.create();
    std::vector<float> out(q.size());
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::vector<float> row_k, row_v;
      for (int h = 0; h < kHeads; ++h) {
        const auto from = static_cast<std::ptrdiff_t>((h * kTokens + t) * d);
        row_k.insert(row_k.end(), k.begin() + from, k.begin() + from + d);
        row_v.insert(row_v.end(), v.begin() + from, v.begin() + from + d);
      }
      const kv::Slice slice{sequence, 0, 1, true};
      cache.begin({&slice, 1});
      cache.attend(0, q.data(), row_k.data(), row_v.data(), out.data(), {0.125f});
      cache.commit();
    }
    const PackedKv pk(keys, k.data(), 1, kHeads, kTokens);
    const PackedKv pv(values, v.data(), 1, kHeads, kTokens);
    std::vector<float> own(q.size());
    attend(q.data(), kHeads * kGroup, pk, pv, own.data());
    EXPECT_EQ(own, out) << info.name;
  }
}

// Four tokens with 2-bit codes worked out by hand, K^ and V^, and one token behind them in full precision. 124 tokens
// that score far below fill the page, so that the four are sealed and the fifth is raw.
TEST(KvCodecs, KnownAnswerWithAResidualToken) {
  constexpr int d = 32;
  const float third = 1.0f / 3;
  const float k4[4][4] = {{0, 5 * third, -1, 2}, {1, 5 * third, 0, 4}, {2, -1, 1, 6}, {3, 3, 2, 8}};
  const float v4[4][4] = {{0, 1, 2, 3}, {4, -2, 0, 2}, {1, 1, 1, 1}, {-1, 1, 3, 5}};
  for (const char* name : {"f32", "f16"}) {
    for (const bool residual : {false, true}) {
      const int tokens = residual ? 129 : 128;
      std::vector<float> k(static_cast<std::size_t>(tokens * d)), v(k.size()), q(d);
      for (int t = 0; t < 124; ++t) k[static_cast<std::size_t>(t * d + 4)] = -1000;
      for (int t = 0; t < 4; ++t)
        for (int c = 0; c < 4; ++c) {
          k[static_cast<std::size_t>((124 + t) * d + c)] = k4[t][c];
          v[static_cast<std::size_t>((124 + t) * d + c)] = v4[t][c];
        }
      if (residual)
        for (int c = 0; c < 4; ++c) k[static_cast<std::size_t>(128 * d + c)] = 1;
      const float last_v[4] = {10, 0, -10, 0};
      if (residual) std::copy_n(last_v, 4, v.end() - d);
      q[0] = 1;
      q[2] = 0.5f;
      q[3] = -0.25f;
      q[4] = 1;
      const PackedKv pk(KvCodec(name, d, KvSide::kKeys), k.data(), 1, 1, tokens);
      const PackedKv pv(KvCodec(name, d, KvSide::kValues), v.data(), 1, 1, tokens);
      std::vector<float> out(d);
      float lse = 0;
      attend(q.data(), 1, pk, pv, out.data(), {.scale = 0.5f, .lse = &lse});
      const double golden[2][4] = {{0.4905705, 0.4977847, 1.8442396, 3.1906947},
                                   {2.7561217, 0.3791912, -0.9775627, 2.4305353}};
      for (std::size_t c = 0; c < 4; ++c) EXPECT_NEAR(out[c], golden[residual][c], 1e-6) << name << " " << residual;
      EXPECT_NEAR(lse, residual ? 2.0594658 : 1.7873387, 1e-6);
    }
  }
}

// Every codec, a batch with different values in every head, one KV head for many queries.
TEST(KvCodecs, ThreadsAndRangesDoNotShow) {
  constexpr int kBatch = 2, kHeads = 3, kQueries = 33, d = 64;
  constexpr std::int64_t kTokens = 400;
  for (const auto& info : kv_codecs()) {
    const KvCodec keys = codec_for(info.name, d, KvSide::kKeys);
    const KvCodec values = codec_for(info.name, d, KvSide::kValues);
    const auto k = gaussian(size(kBatch, kHeads, kTokens, d), 7);
    const auto v = gaussian(k.size(), 8);
    const auto q = gaussian(size(kBatch, kQueries, 1, d), 9);
    const PackedKv pk(keys, k.data(), kBatch, kHeads, kTokens);
    const PackedKv pv(values, v.data(), kBatch, kHeads, kTokens);
    std::vector<float> want(q.size());
    attend(q.data(), kQueries, pk, pv, want.data());

    KvWorkers workers(3);
    EXPECT_EQ(workers.size(), 3);
    const PackedKv tk(keys, k.data(), kBatch, kHeads, kTokens, 0, &workers);
    const PackedKv tv(values, v.data(), kBatch, kHeads, kTokens, 0, &workers);
    std::vector<float> out(q.size());
    attend(q.data(), kQueries, tk, tv, out.data(), {.workers = &workers});
    EXPECT_EQ(out, want) << info.name;
    std::vector<float> one(k.size()), three(k.size());
    pk.dequantize(one.data());
    tk.dequantize(three.data(), &workers);
    EXPECT_EQ(one, three) << info.name;

    std::vector<float> split(q.size());
    std::vector<std::thread> readers;
    for (int i = 0; i < kBatch * kHeads; ++i)
      readers.emplace_back([&, i] { attend(q.data(), kQueries, pk, pv, split.data(), {.begin = i, .end = i + 1}); });
    for (auto& r : readers) r.join();
    EXPECT_EQ(split, want) << info.name;
    std::vector<float> part(q.size(), -7.0f);
    attend(q.data(), kQueries, pk, pv, part.data(), {.begin = 1, .end = 2});
    const int row = kQueries / kHeads * d;
    for (int i = 0; i < kBatch * kQueries * d; ++i)
      ASSERT_EQ(part[static_cast<std::size_t>(i)], i / row == 1 ? want[static_cast<std::size_t>(i)] : -7.0f);
  }
}

TEST(KvCodecs, BytesAreWhatIsHeld) {
  constexpr int d = 96;
  for (const auto& info : kv_codecs()) {
    for (const KvSide side : {KvSide::kKeys, KvSide::kValues}) {
      const KvCodec codec = codec_for(info.name, d, side);
      EXPECT_EQ(codec.bytes(0), 0u);
      EXPECT_DOUBLE_EQ(static_cast<double>(codec.bytes(1280)) * 8 / (1280 * d), codec.bits_per_element());
      for (const std::int64_t tokens : {0, 1, 16, 127, 128, 1000}) {
        const auto x = gaussian(size(2, 3, tokens, d), 10);
        const std::size_t before = tensor::allocated_bytes(tensor::Tag::kCache);
        const PackedKv p(codec, x.data(), 2, 3, tokens);
        const std::size_t held = tensor::allocated_bytes(tensor::Tag::kCache) - before;
        EXPECT_EQ(p.bytes(), held - 64) << "all but the 64 bytes that readers may touch";
        EXPECT_GE(p.bytes(), 6 * codec.bytes(tokens));
        const std::size_t tail = codec.bytes(tokens) - codec.bytes(tokens / 128 * 128);
        EXPECT_EQ(tail,
                  static_cast<std::size_t>((tokens % 128 + 15) / 16 * 16 * d) * (codec.spec() == "f32" ? 4u : 2u));
      }
    }
  }
}

TEST(KvCodecs, NothingIsAttendedToWithoutTokens) {
  const PackedKv k(KvCodec("f16", 64, KvSide::kKeys), nullptr, 1, 2, 0);
  const PackedKv v(KvCodec("f16", 32, KvSide::kValues), nullptr, 1, 2, 0);
  const auto q = gaussian(4 * 64, 11);
  std::vector<float> out(4 * 32, -7.0f), lse(4);
  attend(q.data(), 4, k, v, out.data(), {.lse = lse.data()});
  EXPECT_EQ(out, std::vector<float>(4 * 32, 0.0f));
  for (const float x : lse) EXPECT_EQ(x, -INFINITY);
  k.dequantize(nullptr);
}

template <class F>
std::string message(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

#define EXPECT_REFUSED(expression, text)                           \
  {                                                                \
    const std::string said = message([&] { (void)(expression); }); \
    EXPECT_NE(said.find(text), std::string::npos) << said;         \
  }

TEST(KvCodecs, MistakesAreNamed) {
  EXPECT_REFUSED(KvCodec("rot13", 64, KvSide::kKeys), "unknown codec 'rot13', expected one of: ");
  EXPECT_REFUSED(KvCodec("", 64, KvSide::kKeys), "unknown codec ''");
  EXPECT_REFUSED(KvCodec("f16:x", 64, KvSide::kKeys), "'x' is no parameter of codec 'f16'");
  EXPECT_REFUSED(KvCodec("f16", 60, KvSide::kKeys), "cannot store keys of heads of size 60: the head size must be");
  EXPECT_REFUSED(KvCodec("f16", -64, KvSide::kValues), "cannot store values of heads of size -64");
  EXPECT_REFUSED(KvCodec("delta3", 64, KvSide::kValues), "it is made for the keys only");
  EXPECT_REFUSED(KvCodec("f16", 64, static_cast<KvSide>(7)), "side is neither");
  EXPECT_REFUSED(KvWorkers(0), "threads: 0 is outside 1..512");

  const KvCodec keys("f16", 64, KvSide::kKeys), values("f16", 64, KvSide::kValues);
  EXPECT_REFUSED(keys.bytes(-1), "tokens is -1, expected 0 or more");
  std::vector<float> x(2 * 10 * 64), out(4 * 64);
  EXPECT_REFUSED(PackedKv(keys, nullptr, 1, 2, 10), "x is null");
  EXPECT_REFUSED(PackedKv(keys, x.data(), 0, 2, 10), "batch is 0, expected 1 or more");
  EXPECT_REFUSED(PackedKv(keys, x.data(), 1, -2, 10), "heads is -2, expected 1 or more");
  EXPECT_REFUSED(PackedKv(keys, x.data(), 1, 2, -10), "tokens is -10, expected 0 or more");
  EXPECT_REFUSED(PackedKv(keys, x.data(), 1, 2, 10, -1), "layer is -1, expected 0 or more");
  EXPECT_REFUSED(PackedKv(keys, x.data(), 70000, 70000, 1), "too large");
  EXPECT_REFUSED(PackedKv(keys, x.data(), 2, 2, INT64_MAX / 8), "too large");

  const PackedKv k(keys, x.data(), 1, 2, 10), v(values, x.data(), 1, 2, 10), shorter(values, x.data(), 1, 2, 9);
  EXPECT_REFUSED(k.dequantize(nullptr), "out is null");
  EXPECT_REFUSED(attend(nullptr, 4, k, v, out.data()), "q is null");
  EXPECT_REFUSED(attend(x.data(), 4, k, v, nullptr), "out is null");
  EXPECT_REFUSED(attend(x.data(), 3, k, v, out.data()), "query_heads is 3, expected a multiple of the 2 KV heads");
  EXPECT_REFUSED(attend(x.data(), 0, k, v, out.data()), "query_heads is 0");
  EXPECT_REFUSED(attend(x.data(), 4, v, v, out.data()), "k was packed by a codec for values");
  EXPECT_REFUSED(attend(x.data(), 4, k, k, out.data()), "v was packed by a codec for keys");
  EXPECT_REFUSED(attend(x.data(), 4, k, shorter, out.data()), "k is [1][2][10] and v is [1][2][9]");
  EXPECT_REFUSED(attend(x.data(), 4, k, v, out.data(), {.scale = NAN}), "scale is not finite");
  EXPECT_REFUSED(attend(x.data(), 4, k, v, out.data(), {.begin = 1, .end = 3}), "heads [1, 3) are not within the 2");
  EXPECT_REFUSED(attend(x.data(), 4, k, v, out.data(), {.begin = -1}), "heads [-1, -1)");
}

}  // namespace
}  // namespace kvasir
