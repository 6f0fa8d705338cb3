// Every codec inside a cache: the state is a function of the tokens (law 1), decode agrees with prefill, memory is the
// plan.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "kv/cache_fixture.hpp"
#include "kv/codec.hpp"
#include "kv/spec.hpp"
#include "simd/every_isa.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {
namespace codec_cache_test {

using namespace fixture;

const CacheShape kShape = CacheShape::uniform(2, {.kv_heads = 2, .query_heads = 6, .head_dim = 64, .head_dim_v = 64});
constexpr int kTokens = 700;

bool takes(const Codec& c, Side side) {
  CodecParams p;
  return (side == Side::kKeys ? c.k : c.v).bytes && c.refuse(64, side, &p) == nullptr;
}

// Options for every codec, on the sides it takes; f16 on the other.
std::vector<CacheOptions> variants() {
  std::vector<CacheOptions> list;
  for (const auto& e : codecs()) {
    CacheOptions o;
    o.k_codec = takes(*e.value, Side::kKeys) ? std::string(e.name) : "f16";
    o.v_codec = takes(*e.value, Side::kValues) ? std::string(e.name) : "f16";
    o.max_tokens = 1024;
    list.push_back(o);
  }
  return list;
}

struct Outcome {
  std::uint64_t digest;
  std::vector<std::vector<float>> out;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const CacheOptions& o, const Tokens& tokens, int chunk, int threads) {
  Team team(threads);
  Cache cache(team, kShape, o);
  Sequence* s = cache.create();
  auto out = feed(cache, s, tokens, 0, kTokens, chunk);
  cache.check_integrity();
  return {cache.bytes().digest(*s), std::move(out)};
}

TEST(CodecCache, ChunksAndThreadsDoNotShow) {
  const Tokens tokens = random_tokens(kShape, kTokens, 1);
  for (CacheOptions o : variants()) {
    SCOPED_TRACE(o.k_codec + "/" + o.v_codec);
    const Outcome whole = run(o, tokens, kTokens, 2);
    for (const int chunk : {1, 7, 128, 129}) EXPECT_TRUE(run(o, tokens, chunk, 2) == whole) << "chunk " << chunk;
    for (const int threads : {1, 3}) EXPECT_TRUE(run(o, tokens, 300, threads) == whole) << threads << " threads";
    o.window = 0;
    o.sinks = 0;
    EXPECT_TRUE(run(o, tokens, 1, 1) == run(o, tokens, kTokens, 2)) << "no window, no sinks";
    o.key_factors.resize(2);
    for (int i = 0; i < 2 * 64; ++i) o.key_factors[1].push_back(0.25f + static_cast<float>(i % 32) / 8);
    const Outcome divided = run(o, tokens, kTokens, 2);
    for (const int chunk : {1, 129}) EXPECT_TRUE(run(o, tokens, chunk, 1) == divided) << "factors, chunk " << chunk;
    o.key_metrics.resize(2);  // as if queries had one direction in layer 1
    for (int i = 0; i < 2 * 64 * 64; ++i) o.key_metrics[1].push_back(i % 65 == 0 ? 1.5f : 0.5f);
    const Outcome fed_back = run(o, tokens, kTokens, 2);
    for (const int chunk : {1, 129}) EXPECT_TRUE(run(o, tokens, chunk, 1) == fed_back) << "metric, chunk " << chunk;
    EXPECT_EQ(fed_back.digest == divided.digest, !find(codecs(), o.k_codec)->feeds_back);
  }
}

// A lossless codec computes prompts as it computes answers, and so does one with packed prompts.
bool one_arithmetic(const std::string& name) {
  const Codec& codec = *find(codecs(), name);
  return codec.lossless || codec.packed_prompts;
}

TEST(CodecCache, DecodeAgreesWithPrefill) {
  std::set<std::string> exact;
  simd::each_isa([&] {
    const Tokens tokens = random_tokens(kShape, kTokens, 2);
    for (const CacheOptions& o : variants()) {
      SCOPED_TRACE(o.k_codec + "/" + o.v_codec);
      const Outcome whole = run(o, tokens, kTokens, 2);
      Team team(2);
      Cache cache(team, kShape, o);
      Sequence* s = cache.create();
      feed(cache, s, tokens, 0, 500, 500);
      double error = 0;
      double energy = 0;
      bool same = true;
      for (int t = 500; t < kTokens; ++t) {
        const auto outs = step(cache, {{s, &tokens, t, 1, true}});
        for (std::size_t l = 0; l < outs[0].size(); ++l)
          for (std::size_t i = 0; i < outs[0][l].size(); ++i) {
            const float want = whole.out[l][static_cast<std::size_t>(t) * outs[0][l].size() + i];
            same = same && std::bit_cast<std::uint32_t>(outs[0][l][i]) == std::bit_cast<std::uint32_t>(want);
            error += std::pow(static_cast<double>(outs[0][l][i]) - want, 2);
            energy += static_cast<double>(want) * want;
          }
      }
      EXPECT_EQ(cache.bytes().digest(*s), whole.digest);
      EXPECT_LT(std::sqrt(error / energy), 0.02);
      if (!one_arithmetic(o.k_codec) || !one_arithmetic(o.v_codec)) continue;
      EXPECT_TRUE(same);
      exact.insert(o.k_codec);
    }
  });
  for (const char* name : {"f16", "rq2", "rq3", "rq4", "rq5", "rq8", "int2_channel", "int4_channel", "int2_token",
                           "int4_token", "int8_token", "hqq4", "uniform4"})
    EXPECT_TRUE(exact.contains(name)) << name << " computes prompts otherwise";
}

// Parts of a step, threads and single tokens give the bits of the whole with groups that share a packed unit, too.
TEST(CodecCache, SmallGroupsAreLikeOthers) {
  simd::each_isa([&] {
    const Tokens tokens = random_tokens(kShape, kTokens, 5);
    CacheOptions o;
    o.k_codec = "int2_channel:4";
    o.v_codec = "int2_token:8";
    o.window = 0;
    o.max_tokens = 1024;
    const Outcome whole = run(o, tokens, kTokens, 2);
    EXPECT_TRUE(run(o, tokens, 129, 1) == whole);
    Team team(1);
    Cache cache(team, kShape, o);
    Sequence* s = cache.create();
    feed(cache, s, tokens, 0, 620, 620);
    for (int t = 620; t < kTokens; ++t) {
      const auto outs = step(cache, {{s, &tokens, t, 1, true}});
      for (std::size_t l = 0; l < outs[0].size(); ++l)
        for (std::size_t i = 0; i < outs[0][l].size(); ++i)
          ASSERT_EQ(outs[0][l][i], whole.out[l][static_cast<std::size_t>(t) * outs[0][l].size() + i]) << t;
    }
    EXPECT_EQ(cache.bytes().digest(*s), whole.digest);
  });
}

TEST(CodecCache, LayersMayDiffer) {
  const Tokens tokens = random_tokens(kShape, kTokens, 3);
  for (const CacheOptions& o : variants()) {
    CacheOptions mixed = o;
    mixed.layers = {{.first = 0, .last = 0, .k_codec = "f16", .v_codec = "f16"}};
    CacheOptions plain;
    plain.max_tokens = o.max_tokens;
    const Outcome a = run(mixed, tokens, 200, 2);
    EXPECT_TRUE(a.out[0] == run(plain, tokens, 200, 2).out[0]) << o.k_codec;
    EXPECT_TRUE(a.out[1] == run(o, tokens, 200, 2).out[1]) << o.k_codec;
  }
}

TEST(CodecCache, MemoryIsThePlan) {
  for (CacheOptions o : variants()) {
    Team team(1);
    o.max_tokens = 32768;
    const auto before = tensor::allocated_bytes(tensor::Tag::kCache) + tensor::allocated_bytes(tensor::Tag::kScratch);
    Cache cache(team, kShape, o);
    const auto held =
        tensor::allocated_bytes(tensor::Tag::kCache) + tensor::allocated_bytes(tensor::Tag::kScratch) - before;
    EXPECT_NEAR(static_cast<double>(held), static_cast<double>(cache.memory().total()), 1024) << o.k_codec;
    const Codec& k = *find(codecs(), o.k_codec);
    CodecParams p;
    ASSERT_EQ(k.refuse(64, Side::kKeys, &p), nullptr);
    EXPECT_EQ(cache.memory().k_chunk_bytes, 2 * 2 * k.k.bytes(64, p));
    EXPECT_EQ(cache.memory().sealed_bytes,
              static_cast<std::size_t>(cache.memory().pages) * cache.memory().chunk_bytes + 64);
  }
}

std::string message(CacheOptions o) {
  o.max_tokens = 1024;
  try {
    plan_memory(kShape, o, 1);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CodecCache, BadChoicesAreNamed) {
  EXPECT_NE(message({.k_codec = "int4"}).find("unknown codec 'int4'"), std::string::npos);
  EXPECT_NE(message({.k_codec = "f16:"}).find("'' is no parameter of codec 'f16'"), std::string::npos);
  EXPECT_NE(message({.v_codec = "f16:3x"}).find("v_codec"), std::string::npos);
  EXPECT_NE(message({.v_codec = "f16:32"}).find("no parameters"), std::string::npos);
  EXPECT_NE(message({.layers = {{0, 2, "f16", "f16"}}}).find("within 0..1"), std::string::npos);
  EXPECT_NE(message({.layers = {{1, 1, "f16", "no"}}}).find("v_codec of layer 1"), std::string::npos);
  EXPECT_THROW(parse_layers("1", "x"), Error);
  EXPECT_THROW(parse_layers("1=", "x"), Error);
  EXPECT_THROW(parse_layers("1-=f16", "x"), Error);
  EXPECT_THROW(parse_layers("a=f16", "x"), Error);
  EXPECT_EQ(parse_layers("0=f16;2-5=bf16/f32", "x").at(1).v_codec, "f32");
  EXPECT_EQ(parse_layers("", "x").size(), 0u);
}

TEST(CodecCache, ChoicesThatAreNonePointToTheNearest) {
  const auto refusal = [](std::string_view text) -> std::string {
    try {
      parse_pair(text, "--kv");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const std::string typo = refusal("blanced");
  EXPECT_EQ(typo.find("--kv: unknown codec 'blanced', expected one of: bf16, "), 0u) << typo;
  EXPECT_NE(typo.find("; or of the presets: balanced, exact, "), std::string::npos) << typo;
  EXPECT_NE(typo.find("(did you mean 'balanced'?)"), std::string::npos) << typo;
  // Presets where codecs or parameters are, and names of other programs.
  EXPECT_NE(refusal("balanced:16").find("'balanced' is a preset, which takes no parameter"), std::string::npos)
      << refusal("balanced:16");
  EXPECT_NE(refusal("q8_0").find("'int8_token' is nearest to it"), std::string::npos) << refusal("q8_0");
  EXPECT_NE(refusal("FP8_E4M3").find("'int8_token' is nearest to it"), std::string::npos);
  EXPECT_NE(refusal("F16").find("did you mean 'f16'?"), std::string::npos);
  EXPECT_NE(refusal("uniform_4b").find("'uniform4' is nearest to it"), std::string::npos) << refusal("uniform_4b");
  EXPECT_NE(refusal("rq44:unbiased").find("unknown codec 'rq44', "), std::string::npos);
  EXPECT_EQ(refusal("balanced"), "");
  EXPECT_EQ(refusal("rq4:unbiased"), "");
  EXPECT_EQ(parse_pair("rq4/rq3", "--kv").v, "rq3");
  EXPECT_THROW(parse_layers("0=blanced", "x"), Error);
  // A group size takes the place of the one that the preset's codecs have.
  EXPECT_EQ(parse_pair("kivi2:16", "--kv").k, "int2_channel:16");
  EXPECT_EQ(parse_pair("kivi2:16", "--kv").v, "int2_token:16");
  EXPECT_EQ(parse_pair("quanto4:8", "--kv").v, "int4_token:8");
  EXPECT_TRUE(stores("kivi2:4", 80, 80));
  EXPECT_FALSE(stores("kivi2:2", 80, 80));
  EXPECT_FALSE(stores("exact:16", 80, 80));
}

}  // namespace codec_cache_test
}  // namespace kvasir::kv
