// The fold alone: lists of segments that the cache does not make yet, as pages of another place and hidden rows.
#include "kv/fold.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kv/cache_fixture.hpp"
#include "kv/spec.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {
namespace {

constexpr int kD = 64;
constexpr int kPairs = kD / 2;
constexpr int kGroup = 3;

std::vector<double> frequencies() {
  std::vector<double> f;
  for (int i = 0; i < kPairs; ++i) f.push_back(std::pow(10000.0, -2.0 * i / kD));
  return f;
}

// x (kD) rotated to position p, pairs (i, i + kPairs).
std::vector<double> rotated(const float* x, double p) {
  std::vector<double> y(kD);
  const std::vector<double> f = frequencies();
  for (int i = 0; i < kPairs; ++i) {
    const double c = std::cos(p * f[static_cast<std::size_t>(i)]);
    const double s = std::sin(p * f[static_cast<std::size_t>(i)]);
    y[static_cast<std::size_t>(i)] = x[i] * c - x[i + kPairs] * s;
    y[static_cast<std::size_t>(i + kPairs)] = x[i] * s + x[i + kPairs] * c;
  }
  return y;
}

// Pages of keys (rotated to the positions at which they were made) and values, sealed by one codec.
struct Pages {
  const Codec* codec;
  CodecParams params;
  int count;
  std::int64_t made_at;
  std::vector<float> k, v;  // (128 count, kD), not rotated
  tensor::Buffer k_blocks, v_blocks, k_state, v_state;
  std::size_t k_bytes, v_bytes;

  Pages(const char* name, int pages, std::int64_t position, std::uint64_t seed) : count(pages), made_at(position) {
    const CodecSpec spec = parse_codec(name, kD, Side::kKeys, "test");
    codec = spec.codec;
    params = spec.params;
    const int n = pages * kPageTokens;
    for (int i = 0; i < n * kD; ++i) {
      k.push_back(fixture::noise(seed, static_cast<std::uint64_t>(i)));
      v.push_back(fixture::noise(seed + 1, static_cast<std::uint64_t>(i)));
    }
    k_bytes = codec->k.bytes(kD, params);
    v_bytes = codec->v.bytes(kD, params);
    const auto room = [&](std::size_t bytes) {
      return tensor::Buffer(tensor::Tag::kScratch, bytes * static_cast<std::size_t>(pages) + kReadSlack);
    };
    k_blocks = room(k_bytes);
    v_blocks = room(v_bytes);
    if (codec->state_bytes && codec->state_bytes(kD) > 0) {
      for (tensor::Buffer* s : {&k_state, &v_state}) *s = tensor::Buffer(tensor::Tag::kScratch, codec->state_bytes(kD));
      codec->init_state(k_state.data(), kD, Side::kKeys, 0, 0);
      codec->init_state(v_state.data(), kD, Side::kValues, 0, 0);
    }
    const Codec& raw = *find(codecs(), codec->raw_type == RawType::kF32   ? "f32"
                                       : codec->raw_type == RawType::kF16 ? "f16"
                                                                          : "bf16");
    const tensor::Buffer block(tensor::Tag::kScratch, kPageTokens * kD * 4 + kReadSlack);
    const tensor::Buffer scratch(tensor::Tag::kScratch, seal_floats(kD) * sizeof(float));
    for (int p = 0; p < pages; ++p) {
      std::vector<float> rows;
      for (int t = 0; t < kPageTokens; ++t) {
        const int row = p * kPageTokens + t;
        for (const double x : rotated(k.data() + row * kD, static_cast<double>(made_at + row)))
          rows.push_back(static_cast<float>(x));
      }
      const auto page = static_cast<std::size_t>(p);
      raw.write_k(block.data(), kPageTokens, 0, kPageTokens, rows.data(), kD, kD);
      codec->k.seal(head_k(), block.data(), 0, scratch.as<float>(), k_blocks.data() + page * k_bytes);
      raw.write_v(block.data(), kPageTokens, 0, kPageTokens, v.data() + p * kPageTokens * kD, kD, kD);
      codec->v.seal(head_v(), block.data(), 0, scratch.as<float>(), v_blocks.data() + page * v_bytes);
    }
  }
  Head head_k() const { return {kD, params, k_state.data()}; }
  Head head_v() const { return {kD, params, v_state.data()}; }
  FoldPage page(int i, std::int64_t position) const {
    const auto at = static_cast<std::size_t>(i);
    return {{k_blocks.data() + at * k_bytes, 0, kPageTokens, kPageTokens},
            {v_blocks.data() + at * v_bytes, 0, kPageTokens, kPageTokens},
            position};
  }
};

// One token of the answer's list in double.
struct Token {
  const float* k;
  const float* v;
  std::int64_t position;
};

std::vector<double> attention(const float* q, std::int64_t position, const std::vector<Token>& tokens) {
  const std::vector<double> query = rotated(q, static_cast<double>(position));
  std::vector<double> out(kD);
  double sum = 0;
  for (const Token& t : tokens) {
    const std::vector<double> key = rotated(t.k, static_cast<double>(t.position));
    double score = 0;
    for (int c = 0; c < kD; ++c) score += query[static_cast<std::size_t>(c)] * key[static_cast<std::size_t>(c)];
    const double w = std::exp(score);
    sum += w;
    for (int c = 0; c < kD; ++c) out[static_cast<std::size_t>(c)] += w * t.v[c];
  }
  for (double& x : out) x /= sum;
  return out;
}

constexpr std::int64_t kShift = 300;

// Relative error of two pages made `shift` tokens before the place where they are used, with five rows hidden, and a
// page of the sequence's own behind them.
double error(const char* borrowed_codec, const char* own_codec, bool tiles, std::int64_t shift) {
  const Pages borrowed(borrowed_codec, 2, kShift - shift, 21);
  const Pages own(own_codec, 1, kShift + 256, 22);
  const std::set<int> hidden{0, 5, 63, 64, 127};
  std::uint64_t mask[2] = {};
  for (const int t : hidden) mask[t / 64] |= std::uint64_t{1} << (t % 64);

  const std::int64_t position = kShift + 3 * kPageTokens + 7;
  std::vector<float> q;
  std::vector<float> plain;
  for (int r = 0; r < kGroup; ++r) {
    for (int c = 0; c < kD; ++c) plain.push_back(fixture::noise(23, static_cast<std::uint64_t>(r * kD + c)));
    for (const double x : rotated(plain.data() + r * kD, static_cast<double>(position)))
      q.push_back(static_cast<float>(x));
  }

  const FoldSize size{kGroup, kD, kD, tiles ? 1 : kGroupPages, tiles};
  FoldScratch scratch;
  const tensor::Buffer memory(tensor::Tag::kScratch, scratch.place(nullptr, size) * sizeof(float));
  scratch.place(memory.as<float>(), size);
  kernel::attention().scale_rows(q.data(), kD, kGroup, kD, 1.0f, scratch.q);
  const Rows rows{scratch.q, kGroup, kGroup, position};
  const std::vector<double> f = frequencies();
  const Rotation rotation{f.data(), kPairs, kernel::RopePairs::kSplitHalf};
  Fold fold(rows, size, scratch, 0, &rotation);
  const Segment first{borrowed.codec, borrowed.codec, borrowed.head_k(), borrowed.head_v(), shift};
  const Segment second{own.codec, own.codec, own.head_k(), own.head_v()};
  FoldPage pages[] = {borrowed.page(0, kShift), borrowed.page(1, kShift + kPageTokens)};
  pages[0].hidden = mask;
  const FoldPage last = own.page(0, kShift + 2 * kPageTokens);
  kernel::attention().clear(kGroup, kD, scratch.group);
  fold.add(first, pages, true, scratch.group);
  fold.add(second, {&last, 1}, false, scratch.group);
  std::vector<float> out(kGroup * kD);
  kernel::attention().finish(kGroup, kD, scratch.group, out.data(), kD);

  std::vector<Token> tokens;
  for (int t = 0; t < 2 * kPageTokens; ++t)
    if (!hidden.count(t)) tokens.push_back({borrowed.k.data() + t * kD, borrowed.v.data() + t * kD, t + kShift});
  for (int t = 0; t < kPageTokens; ++t)
    tokens.push_back({own.k.data() + t * kD, own.v.data() + t * kD, kShift + 2 * kPageTokens + t});
  double wrong = 0;
  double norm = 0;
  for (int r = 0; r < kGroup; ++r) {
    const std::vector<double> want = attention(plain.data() + r * kD, position, tokens);
    for (int c = 0; c < kD; ++c) {
      wrong += std::pow(out[static_cast<std::size_t>(r * kD + c)] - want[static_cast<std::size_t>(c)], 2);
      norm += std::pow(want[static_cast<std::size_t>(c)], 2);
    }
  }
  return std::sqrt(wrong / norm);
}

// Lossy codecs err as much as where pages stand where they were made. The order of bases matters: a segment in another
// basis may stand before or behind one that is not.
TEST(Fold, BorrowedPagesAreReadAtTheirNewPlaceWithoutTheHiddenRows) {
  for (const bool tiles : {false, true}) {
    EXPECT_LT(error("f32", "f32", tiles, kShift), 1e-5);
    for (const auto& [borrowed, own] :
         {std::pair{"f16", "rq8"}, {"rq8", "f16"}, {"rq8", "rq8"}, {"int8_token", "rq8"}}) {
      const double there = error(borrowed, own, tiles, 0);
      EXPECT_LT(there, 0.05) << borrowed << " " << own;
      EXPECT_LT(error(borrowed, own, tiles, kShift), 1.5 * there) << borrowed << " " << own << (tiles ? " tiles" : "");
    }
  }
}

TEST(Fold, APageOfWhichEveryRowIsHiddenAddsNothing) {
  const Pages pages("f32", 2, 0, 31);
  const std::uint64_t mask[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
  for (const bool tiles : {false, true}) {
    const FoldSize size{1, kD, kD, tiles ? 1 : kGroupPages, tiles};
    FoldScratch scratch;
    const tensor::Buffer memory(tensor::Tag::kScratch, scratch.place(nullptr, size) * sizeof(float));
    scratch.place(memory.as<float>(), size);
    for (int c = 0; c < kD; ++c) scratch.q[c] = fixture::noise(32, static_cast<std::uint64_t>(c));
    const Rows rows{scratch.q, 1, 1, 1000};
    const Segment segment{pages.codec, pages.codec, pages.head_k(), pages.head_v()};
    std::vector<float> outs[2];
    for (const bool with : {false, true}) {
      Fold fold(rows, size, scratch);
      kernel::attention().clear(1, kD, scratch.group);
      FoldPage hidden = pages.page(0, 0);
      hidden.hidden = mask;
      const FoldPage seen = pages.page(1, kPageTokens);
      if (with) fold.add(segment, {&hidden, 1}, true, scratch.group);
      fold.add(segment, {&seen, 1}, !with, scratch.group);
      outs[with].resize(kD);
      kernel::attention().finish(1, kD, scratch.group, outs[with].data(), kD);
    }
    EXPECT_EQ(outs[0], outs[1]);
  }
}

}  // namespace
}  // namespace kvasir::kv
