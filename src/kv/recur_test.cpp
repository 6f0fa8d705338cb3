// Recurrent layers in a cache: law 1 through chunks, batches, forks, cuts and restores, and what they take.
#include "kv/recur.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "kv/cache.hpp"
#include "kv/cache_fixture.hpp"

namespace kvasir::kv {
namespace recur_test {

using fixture::noise;

constexpr RecurrentShape kDelta{
    .channels = 2 * 2 * 16 + 4 * 24, .taps = 4, .heads = 4, .key_heads = 2, .key_dim = 16, .value_dim = 24};
constexpr RecurrentShape kKeyed{.channels = 3 * (2 * 16 + 24),
                                .taps = 4,
                                .heads = 3,
                                .key_heads = 3,
                                .key_dim = 16,
                                .value_dim = 24,
                                .forgetting = Forgetting::kByKey};
constexpr RecurrentShape kScan{.channels = 72,
                               .taps = 4,
                               .heads = 3,
                               .key_heads = 1,
                               .key_dim = 8,
                               .value_dim = 24,
                               .forgetting = Forgetting::kByElement};
constexpr RecurrentShape kConvolution{.channels = 600, .taps = 3};
constexpr RecurrentShape kDilated{.channels = 40, .taps = 4, .dilation = 5};
constexpr LayerShape kAttention{1, 2, 16, 16};

LayerShape with(LayerShape layer, const RecurrentShape& r) {
  layer.recurrent = r;
  return layer;
}
// A state alone, a convolution alone, attention, attention beside a state, nothing, a convolution with a dilation.
CacheShape mixed() {
  return {{with({}, kDelta), with({}, kConvolution), kAttention, with(kAttention, kDelta), {}, with({}, kDilated)}};
}
// Every row of a state with a decay of its own, and every element.
CacheShape forgetful() { return {{with({}, kKeyed), with(kAttention, kScan), with({}, kScan)}}; }
CacheShape stateful() { return {{with({}, kDelta), with({}, kConvolution)}}; }

CacheOptions options_for(std::int64_t tokens, int sequences = 3, const char* codec = "rq4") {
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.max_tokens = tokens;
  o.max_sequences = sequences;
  return o;
}

// Weights of the convolutions, the same in all layers.
struct Weights {
  std::vector<float> taps = std::vector<float>(4 * 1000);
  std::vector<float> bias = std::vector<float>(1000);
  std::vector<float> skip = {0.5f, 0.25f, -0.5f, 1.0f};
  std::vector<float> skips = std::vector<float>(72), rates = std::vector<float>(8 * 72);
  Weights() {
    for (std::size_t i = 0; i < taps.size(); ++i) taps[i] = noise(1, i);
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1f * noise(2, i);
    for (std::size_t i = 0; i < skips.size(); ++i) skips[i] = noise(3, i);
    for (std::size_t i = 0; i < rates.size(); ++i) rates[i] = -std::abs(noise(4, i));
  }
  Recurrent of(const RecurrentShape& s, int layer) const {
    Recurrent r{.taps = taps.data(), .bias = bias.data(), .silu = s.heads > 0};
    r.k = std::int64_t{s.key_heads} * s.key_dim;
    r.v = 2 * r.k;
    r.tiled = layer == 0;
    r.delta = layer == 0;
    r.least_length = layer == 0 ? 1e-6f : 0.0f;
    r.query_scale = 0.25f;
    r.skip = layer == 0 ? nullptr : skip.data();
    if (s.forgetting == Forgetting::kByKey) {
      r.q_taps = taps.data() + 100, r.k_taps = taps.data() + 500, r.v_taps = taps.data() + 900;
      r.taps = nullptr;
    } else if (s.forgetting == Forgetting::kByElement) {
      r = {.taps = taps.data(), .bias = bias.data(), .skip = skips.data(), .rates = rates.data()};
    }
    return r;
  }
};

struct Text {
  Sequence* sequence;
  std::uint64_t seed;
  int from, count;
  bool decode = false;
  int right = 1 << 20;  // the tokens behind these are others
};

// Rows of every layer that answers, by text: bits.
using Outputs = std::vector<std::vector<float>>;

std::vector<float> rows(const std::vector<Text>& texts, std::uint64_t salt, int width, float size) {
  std::vector<float> all;
  for (const Text& t : texts)
    for (int i = 0; i < t.count * width; ++i)
      all.push_back(size * noise((i / width < t.right ? t.seed : t.seed + 77) * 31 + salt,
                                 static_cast<std::uint64_t>(t.from * width + i)));
  return all;
}

Outputs step(Cache& cache, const std::vector<Text>& texts) {
  static const Weights weights;
  std::vector<Slice> slices;
  int n = 0;
  for (const Text& t : texts) {
    slices.push_back({t.sequence, n, t.count, t.decode});
    n += t.count;
  }
  Outputs out(texts.size());
  cache.begin(slices);
  for (int l = 0; l < cache.shape().count(); ++l) {
    const LayerShape& s = cache.shape().at(l);
    const auto salt = static_cast<std::uint64_t>(100 * l);
    const auto share_out = [&](const std::vector<float>& y, int width) {
      for (std::size_t i = 0; i < texts.size(); ++i)
        out[i].insert(out[i].end(), y.begin() + std::ptrdiff_t{slices[i].row} * width,
                      y.begin() + std::ptrdiff_t{slices[i].row + slices[i].count} * width);
    };
    if (s.attends()) {
      std::vector<float> y(static_cast<std::size_t>(n * s.query_heads * s.head_dim_v));
      cache.attend(l, rows(texts, salt + 1, s.query_heads * s.head_dim, 2).data(),
                   rows(texts, salt + 2, s.kv_heads * s.head_dim, 1).data(),
                   rows(texts, salt + 3, s.kv_heads * s.head_dim_v, 1).data(), y.data(), {.scale = 0.25f});
      share_out(y, s.query_heads * s.head_dim_v);
    }
    if (const RecurrentShape& r = s.recurrent) {
      std::vector<float> gates = rows(texts, salt + 5, r.gates(), 1), y(static_cast<std::size_t>(n * r.outputs()));
      for (float& g : gates) g = 0.75f + 0.25f * g;
      cache.recur(l, weights.of(r, l), rows(texts, salt + 4, r.channels, 1).data(), gates.data(), y.data());
      share_out(y, r.outputs());
    }
  }
  cache.commit();
  return out;
}

// Tokens [from, to) in chunks: the answers of each token, all layers.
std::vector<float> answers(Cache& cache, Sequence* s, std::uint64_t seed, int from, int to, int chunk) {
  std::vector<std::vector<float>> by_token;
  for (int at = from; at < to; at += chunk) {
    const int n = std::min(chunk, to - at);
    const std::vector<float> all = step(cache, {{s, seed, at, n}})[0];
    // Layer by layer (n, width): to token by token.
    std::size_t first = 0;
    std::vector<std::vector<float>> tokens(static_cast<std::size_t>(n));
    for (const LayerShape& l : cache.shape().layers)
      for (const int width : {l.attends() ? l.query_heads * l.head_dim_v : 0, l.recurrent ? l.recurrent.outputs() : 0})
        for (auto& token : tokens) {
          token.insert(token.end(), all.begin() + static_cast<std::ptrdiff_t>(first),
                       all.begin() + static_cast<std::ptrdiff_t>(first) + width);
          first += static_cast<std::size_t>(width);
        }
    by_token.insert(by_token.end(), tokens.begin(), tokens.end());
  }
  std::vector<float> flat;
  for (const auto& token : by_token) flat.insert(flat.end(), token.begin(), token.end());
  return flat;
}

void expect_end_of(const std::vector<float>& whole, const std::vector<float>& end, const std::string& what) {
  ASSERT_LE(end.size(), whole.size()) << what;
  EXPECT_EQ(0, std::memcmp(end.data(), whole.data() + (whole.size() - end.size()), end.size() * 4)) << what;
}

TEST(Recurrent, ChunksAndThreadsDoNotShow) {
  for (const CacheShape& shape : {mixed(), stateful(), forgetful()}) {
    constexpr int kTokens = 420;
    std::vector<float> whole;
    std::uint64_t digest = 0;
    for (const auto& [chunk, threads] : {std::pair{kTokens, 2}, {1, 1}, {7, 3}, {128, 2}, {129, 1}, {256, 2}}) {
      Team team(threads);
      Cache cache(team, shape, options_for(1024));
      Sequence* s = cache.create();
      const std::vector<float> out = answers(cache, s, 3, 0, kTokens, chunk);
      if (whole.empty()) whole = out, digest = cache.bytes().digest(*s);
      ASSERT_EQ(out.size(), whole.size());
      EXPECT_EQ(0, std::memcmp(out.data(), whole.data(), whole.size() * 4)) << chunk;
      EXPECT_EQ(cache.bytes().digest(*s), digest) << chunk;
      cache.check_integrity();
    }
  }
}

TEST(Recurrent, NeighboursDoNotShow) {
  Team team(2);
  Cache cache(team, mixed(), options_for(2048));
  Sequence *a = cache.create(), *b = cache.create(), *c = cache.create();
  const Outputs together = step(cache, {{b, 5, 0, 40}, {a, 3, 0, 300}, {c, 9, 0, 1}});
  Cache other(team, mixed(), options_for(1024));
  Sequence* alone = other.create();
  EXPECT_EQ(step(other, {{alone, 3, 0, 300}})[0], together[1]);
  EXPECT_EQ(other.bytes().digest(*alone), cache.bytes().digest(*a));
}

// Layer by layer (n, width) to token by token.
std::vector<std::vector<float>> by_token(const CacheShape& shape, const std::vector<float>& all, int n) {
  std::vector<std::vector<float>> tokens(static_cast<std::size_t>(n));
  std::size_t first = 0;
  for (const LayerShape& l : shape.layers)
    for (const int width : {l.attends() ? l.query_heads * l.head_dim_v : 0, l.recurrent ? l.recurrent.outputs() : 0})
      for (auto& token : tokens) {
        token.insert(token.end(), all.begin() + static_cast<std::ptrdiff_t>(first),
                     all.begin() + static_cast<std::ptrdiff_t>(first) + width);
        first += static_cast<std::size_t>(width);
      }
  return tokens;
}

// Drafted tokens of which some are wrong: states go on from where the step began, through pages, forks and two cuts.
TEST(Recurrent, DraftedTokensHaveTheBitsOfSingleOnes) {
  for (const CacheShape& shape : {mixed(), stateful(), forgetful()})
    for (const bool keeps : {true, false}) {  // without, they go on from the last page boundary
      constexpr int kPrompt = 100, kEnd = 420;
      Team team(2);
      CacheOptions o = options_for(1024, 3, "int4_token");
      Cache single(team, shape, o);
      o.drafts = keeps;
      Cache drafted(team, shape, o);
      EXPECT_EQ(drafted.rules().can_draft(), keeps);
      Sequence *a = single.create(), *b = drafted.create();
      step(single, {{a, 3, 0, kPrompt}});
      step(drafted, {{b, 3, 0, kPrompt}});
      std::vector<std::vector<float>> alone;
      std::vector<std::uint64_t> digests;
      for (int p = kPrompt; p < kEnd; ++p) {
        alone.push_back(step(single, {{a, 3, p, 1, true}})[0]);
        digests.push_back(single.bytes().digest(*a));
      }
      int round = 0;
      for (int p = kPrompt; p < kEnd; ++round) {
        const int room = static_cast<int>(std::min<std::int64_t>(drafted.rules().draft_room(*b), kEnd - p - 1));
        const int count = 1 + std::min(room, round % 7), right = std::min(count, 1 + round * 5 % 9);
        const auto rows = by_token(shape, step(drafted, {{b, 3, p, count, true, right}})[0], count);
        if (round % 3 == 0 && right + 1 < count) drafted.truncate(b, p + right + 1);  // cut twice
        drafted.truncate(b, p + right);
        for (int i = 0; i < right; ++i)
          ASSERT_EQ(rows[static_cast<std::size_t>(i)], alone[static_cast<std::size_t>(p - kPrompt + i)])
              << p << ' ' << i;
        p += right;
        ASSERT_EQ(drafted.bytes().digest(*b), digests[static_cast<std::size_t>(p - kPrompt - 1)]) << p;
        if (round % 4 == 1) {  // a fork takes its place
          Sequence* fork = drafted.fork(*b);
          drafted.release(b);
          b = fork;
        }
        drafted.check_integrity();
      }
    }
}

// At every length around pages: a fork, a cut within the last page, and a restore in another cache go on as if nothing
// had been.
TEST(Recurrent, ForksCutsAndRestoresGoOnWithTheSameBits) {
  for (const CacheShape& shape : {mixed(), stateful(), forgetful()})
    for (const int n : {1, 2, 3, 5, 127, 128, 129, 130, 131, 200, 256, 257, 258, 300}) {
      const int more = n + 140;
      const std::string what = "n " + std::to_string(n);
      Team team(2);
      Cache cache(team, shape, options_for(4096));
      Sequence* plain = cache.create();
      const std::vector<float> whole = answers(cache, plain, 3, 0, more, 50);
      const std::uint64_t digest = cache.bytes().digest(*plain);
      cache.release(plain);

      Sequence* trunk = cache.create();
      answers(cache, trunk, 3, 0, n, 64);
      Sequence* fork = cache.fork(*trunk);
      EXPECT_EQ(cache.bytes().digest(*fork), cache.bytes().digest(*trunk)) << what;
      expect_end_of(whole, answers(cache, fork, 3, n, more, 33), what + " forked");
      EXPECT_EQ(cache.bytes().digest(*fork), digest) << what;
      cache.release(fork);

      // Another text goes on to the end of the page and is cut back.
      Sequence* cut = cache.fork(*trunk);
      const int page_end = (n + 127) / 128 * 128;
      if (page_end > n) answers(cache, cut, 7, n, page_end, 20);
      ASSERT_TRUE(cache.rules().can_truncate(*cut, n)) << what;
      cache.truncate(cut, n);
      EXPECT_EQ(cache.bytes().digest(*cut), cache.bytes().digest(*trunk)) << what;
      Sequence* again = cache.fork(*cut);  // of one whose state is not there
      expect_end_of(whole, answers(cache, again, 3, n, more, 90), what + " cut and forked");
      expect_end_of(whole, answers(cache, cut, 3, n, more, 1), what + " cut");
      EXPECT_EQ(cache.bytes().digest(*cut), digest) << what;

      std::vector<std::byte> tail(cache.rules().tail_bytes(n));
      cache.bytes().save_tail(*trunk, n, tail);
      Cache other(team, shape, options_for(2048));
      Sequence* restored = other.bytes().restore(n, tail);
      for (std::int64_t page = 0; page < cache.rules().sealed_pages(n); ++page) {
        std::vector<std::byte> bytes;
        for (const auto piece : cache.bytes().sealed_page(*trunk, page))
          bytes.insert(bytes.end(), piece.begin(), piece.end());
        other.bytes().fill_page(*restored, page, bytes);
      }
      EXPECT_EQ(other.bytes().digest(*restored), cache.bytes().digest(*trunk)) << what;
      expect_end_of(whole, answers(other, restored, 3, n, more, 70), what + " restored");
      EXPECT_EQ(other.bytes().digest(*restored), digest) << what;
      cache.check_integrity();
      other.check_integrity();
    }
}

// The tail of a beginning is the one that it had, as long as it ends in the page of the last token.
TEST(Recurrent, TailsOfBeginningsAreThoseOfShorterSequences) {
  Team team(1);
  Cache cache(team, mixed(), options_for(1024));
  Sequence* s = cache.create();
  std::vector<std::vector<std::byte>> tails(1);
  for (int n = 1; n <= 300; ++n) {
    answers(cache, s, 3, n - 1, n, 1);
    tails.emplace_back(cache.rules().tail_bytes(n));
    cache.bytes().save_tail(*s, n, tails.back());
  }
  for (const int m : {1, 100, 128, 256, 257, 258, 299, 300}) {
    EXPECT_EQ(cache.rules().keeps_tail(Cache::length(*s), m), m > 256) << m;
    EXPECT_EQ(cache.rules().can_truncate(*s, m), m > 256) << m;
    if (m <= 256) continue;
    std::vector<std::byte> again(cache.rules().tail_bytes(m));
    cache.bytes().save_tail(*s, m, again);
    EXPECT_EQ(again, tails[static_cast<std::size_t>(m)]) << m;
  }
}

TEST(Recurrent, ACutToAnEarlierPageIsRefusedAndChangesNothing) {
  Team team(1);
  Cache cache(team, mixed(), options_for(1024));
  Sequence* s = cache.create();
  answers(cache, s, 3, 0, 300, 300);
  const std::uint64_t digest = cache.bytes().digest(*s);
  EXPECT_THROW(cache.truncate(s, 256), Error);
  EXPECT_EQ(cache.bytes().digest(*s), digest);
  cache.truncate(s, 0);  // always possible
  Sequence* fresh = cache.create();
  EXPECT_EQ(answers(cache, s, 8, 0, 150, 40), answers(cache, fresh, 8, 0, 150, 150));
  EXPECT_EQ(cache.bytes().digest(*s), cache.bytes().digest(*fresh));
}

TEST(Recurrent, AStepThatIsGivenUpLeavesAnEmptySequence) {
  Team team(1);
  Cache cache(team, stateful(), options_for(1024));
  Sequence* s = cache.create();
  answers(cache, s, 3, 0, 200, 200);
  const Slice slice{s, 0, 1, false};
  cache.begin({&slice, 1});
  cache.abort();
  Sequence* fresh = cache.create();
  EXPECT_EQ(answers(cache, s, 3, 0, 20, 20), answers(cache, fresh, 3, 0, 20, 20));
}

// What is kept: the states and the last rows before the boundary, and the rows behind it.
TEST(Recurrent, TailsHoldStatesAndTheRowsOfThePage) {
  Team team(1);
  Cache cache(team, stateful(), options_for(4096));
  const std::size_t rows = 4 * (160 + 8 + 600);
  const std::size_t states = 4 * (3 * 160 + 4 * 16 * 32 + 2 * 600);
  EXPECT_EQ(cache.rules().recurrent_bytes(0), 0u);
  EXPECT_EQ(cache.rules().recurrent_bytes(1), rows);
  EXPECT_EQ(cache.rules().recurrent_bytes(128), 128 * rows);
  EXPECT_EQ(cache.rules().recurrent_bytes(129), states + rows);
  EXPECT_EQ(cache.rules().recurrent_bytes(1000), states + 104 * rows);
  EXPECT_EQ(cache.rules().tail_bytes(1000), cache.rules().recurrent_bytes(1000));  // there is nothing else
  EXPECT_EQ(cache.memory().chunk_bytes, 0u);
  EXPECT_EQ(cache.rules().sealed_pages(4000), 0);
  EXPECT_EQ(cache.memory().bytes_per_token, 0);
}

// What gates are made of: the convolution of the step's rows and those before it, and nothing is appended.
TEST(Recurrent, ConvolutionsAloneAreThoseOfTheRecurrence) {
  Team team(2);
  const CacheShape shape{{with({}, kConvolution)}};
  Cache cache(team, shape, options_for(1024));
  Sequence* s = cache.create();
  const Weights weights;
  const Recurrent how = weights.of(kConvolution, 0);
  for (const auto& [from, count] : {std::pair{0, 1}, {1, 126}, {127, 5}, {132, 40}}) {
    const Slice slice{s, 0, count, false};
    const std::vector<float> x = rows({{s, 3, from, count}}, 4, kConvolution.channels, 1);
    std::vector<float> alone(x.size()), whole(x.size());
    cache.begin({&slice, 1});
    cache.convolve(0, how, x.data(), alone.data());
    cache.recur(0, how, x.data(), nullptr, whole.data());
    cache.commit();
    EXPECT_EQ(alone, whole) << from;
  }
}

// Every row is that of the tokens 0, 5, 10 and 15 before, which may lie in earlier steps and pages.
TEST(Recurrent, ADilationReachesBack) {
  Team team(2);
  const CacheShape shape{{with({}, kDilated)}};
  const Weights weights;
  const Recurrent how = weights.of(kDilated, 0);
  constexpr int kTokens = 300, kChannels = kDilated.channels;
  for (const int chunk : {1, 13, 131, kTokens}) {
    Cache cache(team, shape, options_for(1024));
    Sequence* s = cache.create();
    const std::vector<float> x = rows({{s, 3, 0, kTokens}}, 4, kChannels, 1);
    std::vector<float> y(x.size());
    for (int at = 0; at < kTokens; at += chunk) {
      const Slice slice{s, 0, std::min(chunk, kTokens - at), false};
      cache.begin({&slice, 1});
      cache.recur(0, how, x.data() + at * kChannels, nullptr, y.data() + at * kChannels);
      cache.commit();
    }
    double worst = 0;
    for (int t = 0; t < kTokens; ++t)
      for (int c = 0; c < kChannels; ++c) {
        double want = static_cast<double>(how.bias[c]);
        for (int j = 0; j < kDilated.taps; ++j)
          if (const int from = t - (kDilated.taps - 1 - j) * kDilated.dilation; from >= 0)
            want += static_cast<double>(how.taps[j * kChannels + c]) *
                    static_cast<double>(x[static_cast<std::size_t>(from * kChannels + c)]);
        worst = std::max(worst, std::abs(want - static_cast<double>(y[static_cast<std::size_t>(t * kChannels + c)])));
      }
    EXPECT_LE(worst, 1e-6) << chunk;
  }
}

TEST(Recurrent, WrongShapesAreNamed) {
  Team team(1);
  const auto message = [&](const RecurrentShape& r) -> std::string {
    try {
      Cache cache(team, {{with({}, r)}}, options_for(1000));
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(kDelta), "accepted");
  RecurrentShape r = kDelta;
  r.taps = 100;
  EXPECT_NE(message(r).find("taps"), std::string::npos);
  r = kDelta;
  r.key_heads = 3;
  EXPECT_NE(message(r).find("heads"), std::string::npos);
  r = kDelta;
  r.channels = 100;
  EXPECT_NE(message(r).find("channels"), std::string::npos);
  r = kDelta;
  r.dilation = 2;
  EXPECT_NE(message(r).find("dilation"), std::string::npos);
  r = kDilated;
  r.dilation = 43;
  EXPECT_NE(message(r).find("reaches back"), std::string::npos);
}

}  // namespace recur_test
}  // namespace kvasir::kv
