// Sequences that read pages of other texts at another place: random plans against attention in double, every codec
// against the same tokens encoded at the new place, and what such a sequence goes through.
#include "kv/borrow.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kv/cache.hpp"
#include "kv/cache_fixture.hpp"
#include "kv/codec.hpp"
#include "kv/device_fixture.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kv {
namespace borrow_test {

constexpr int kD = 64;
constexpr int kKv = 2;
constexpr int kHeads = 4;
constexpr int kLayers = 6;
// Windows longer and shorter than a page, and windows side by side.
constexpr std::int64_t kWindows[kLayers] = {0, 0, 0, 300, 70, 192};
constexpr bool kChunked[kLayers] = {false, false, false, false, false, true};

// A layer that rotations halves, one that rotations pairs of a part of the head, and one without positions; then layers
// with windows, of another base.
struct Ropes {
  static constexpr std::int64_t kPositions = 4000;
  std::vector<double> half, part, local;
  std::vector<double> table[kLayers];  // cosines and sines by position
  Rotation rotations[kLayers];

  Ropes() {
    for (int i = 0; i < kD / 2; ++i) half.push_back(std::pow(10000.0, -2.0 * i / kD));
    for (int i = 0; i < 12; ++i) part.push_back(std::pow(500000.0, -2.0 * i / 24));
    rotations[0] = {half.data(), kD / 2, kernel::RopePairs::kSplitHalf};
    for (int i = 0; i < kD / 2; ++i) local.push_back(std::pow(100.0, -2.0 * i / kD));
    rotations[1] = {part.data(), 12, kernel::RopePairs::kAdjacent};
    rotations[3] = rotations[4] = {local.data(), kD / 2, kernel::RopePairs::kSplitHalf};
    rotations[5] = rotations[0];
    for (int l = 0; l < kLayers; ++l)
      for (std::int64_t p = 0; p < kPositions; ++p)
        for (std::int64_t i = 0; i < rotations[l].pairs; ++i) {
          const double angle = static_cast<double>(p) * rotations[l].frequencies[i];
          table[l].push_back(std::cos(angle));
          table[l].push_back(std::sin(angle));
        }
  }
  const Rotation* of(int layer) const { return rotations[layer].pairs > 0 ? &rotations[layer] : nullptr; }
  void apply(int layer, float* x, std::int64_t p) const {
    const Rotation& t = rotations[layer];
    for (std::int64_t i = 0; i < t.pairs; ++i) {
      float& a = x[t.layout == kernel::RopePairs::kSplitHalf ? i : 2 * i];
      float& b = x[t.layout == kernel::RopePairs::kSplitHalf ? i + t.pairs : 2 * i + 1];
      const auto at = static_cast<std::size_t>(2 * (p * t.pairs + i));
      const double c = table[layer][at], s = table[layer][at + 1];
      const double x0 = a, x1 = b;
      a = static_cast<float>(x0 * c - x1 * s);
      b = static_cast<float>(x0 * s + x1 * c);
    }
  }
};

CacheShape shape() {
  CacheShape s =
      CacheShape::uniform(kLayers, {.kv_heads = kKv, .query_heads = kHeads, .head_dim = kD, .head_dim_v = kD});
  for (std::size_t l = 0; l < kLayers; ++l) s.layers[l].window = kWindows[l], s.layers[l].chunked = kChunked[l];
  return s;
}

// What a token says in one layer; q and k not rotated.
struct Row {
  std::vector<float> q, k, v;
};
using Rows = std::vector<Row>;  // by layer

Rows make_row(std::uint64_t seed) {
  Rows rows;
  for (int l = 0; l < kLayers; ++l) {
    Row r;
    const auto fill = [&](std::vector<float>& x, int n, std::uint64_t salt, float size) {
      for (int i = 0; i < n; ++i)
        x.push_back(
            size * fixture::noise(seed * 31 + salt + 7 * static_cast<std::uint64_t>(l), static_cast<std::uint64_t>(i)));
    };
    fill(r.q, kHeads * kD, 1, 2.0f);
    fill(r.k, kKv * kD, 2, 1.5f);
    fill(r.v, kKv * kD, 3, 1.0f);
    rows.push_back(std::move(r));
  }
  return rows;
}

struct Placed {
  const Rows* rows;
  std::int64_t position;
};
using Outputs = std::vector<std::vector<std::vector<float>>>;  // by token and layer, (heads, d)

// Feeds tokens in one step.
Outputs step(Cache& cache, Sequence* s, const Ropes& ropes, std::span<const Placed> tokens, bool decode = false) {
  const int n = static_cast<int>(tokens.size());
  const Slice slice{s, 0, n, decode};
  cache.begin({&slice, 1});
  Outputs outs(static_cast<std::size_t>(n));
  for (int l = 0; l < kLayers; ++l) {
    std::vector<float> q, k, v;
    for (int t = 0; t < n; ++t) {
      const Placed& p = tokens[static_cast<std::size_t>(t)];
      EXPECT_EQ(p.position, Cache::position(*s, t));
      Row r = (*p.rows)[static_cast<std::size_t>(l)];
      for (int h = 0; h < kHeads; ++h) ropes.apply(l, r.q.data() + h * kD, p.position);
      for (int h = 0; h < kKv; ++h) ropes.apply(l, r.k.data() + h * kD, p.position);
      q.insert(q.end(), r.q.begin(), r.q.end());
      k.insert(k.end(), r.k.begin(), r.k.end());
      v.insert(v.end(), r.v.begin(), r.v.end());
    }
    std::vector<float> out(static_cast<std::size_t>(n * kHeads * kD));
    Scoring scoring{.scale = 0.125f};
    scoring.rotation = ropes.of(l);
    cache.attend(l, q.data(), k.data(), v.data(), out.data(), scoring);
    for (int t = 0; t < n; ++t)
      outs[static_cast<std::size_t>(t)].emplace_back(out.begin() + t * kHeads * kD,
                                                     out.begin() + (t + 1) * kHeads * kD);
  }
  cache.commit();
  return outs;
}

Outputs feed(Cache& cache, Sequence* s, const Ropes& ropes, std::span<const Placed> tokens, std::size_t chunk,
             bool decode = false) {
  Outputs all;
  for (std::size_t at = 0; at < tokens.size(); at += chunk) {
    Outputs some = step(cache, s, ropes, tokens.subspan(at, std::min(chunk, tokens.size() - at)), decode);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<double> attention(const Ropes& ropes, int layer, int head, const Placed& query,
                              std::span<const Placed> text) {
  const auto l = static_cast<std::size_t>(layer);
  std::vector<float> q(kD), k(kD);
  const auto head_of = [&](const std::vector<float>& x, int h, std::vector<float>& to, std::int64_t p) {
    std::copy_n(x.begin() + h * kD, kD, to.begin());
    ropes.apply(layer, to.data(), p);
  };
  head_of((*query.rows)[l].q, head, q, query.position);
  const int kv = head * kKv / kHeads;
  std::vector<double> out(kD), scores;
  double top = -1e300;
  const std::int64_t window = kWindows[layer], p = query.position;
  const std::int64_t from = window == 0       ? 0
                            : kChunked[layer] ? p - p % window
                                              : std::max<std::int64_t>(0, p + 1 - window);
  text = text.subspan(static_cast<std::size_t>(from));
  for (const Placed& t : text) {
    if (t.position > query.position) break;
    head_of((*t.rows)[l].k, kv, k, t.position);
    double score = 0;
    for (std::size_t c = 0; c < kD; ++c) score += double{q[c]} * double{k[c]};
    scores.push_back(score * 0.125);
    top = std::max(top, scores.back());
  }
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double w = std::exp(scores[i] - top);
    sum += w;
    for (std::size_t c = 0; c < kD; ++c)
      out[c] += w * static_cast<double>((*text[i].rows)[l].v[static_cast<std::size_t>(kv * kD) + c]);
  }
  for (double& x : out) x /= sum;
  return out;
}

// Relative error of some outputs against double. `text`: all tokens, each with the rows that are seen of it.
double error(const Ropes& ropes, std::span<const Placed> queries, const Outputs& outs, std::span<const Placed> text) {
  double wrong = 0, size = 0;
  const std::size_t stride = std::max<std::size_t>(1, queries.size() / 6);
  for (std::size_t i = 0; i < queries.size();
       i += i + stride >= queries.size() && i + 1 < queries.size() ? queries.size() - 1 - i : stride)
    for (int l = 0; l < kLayers; ++l)
      for (int h = 0; h < kHeads; ++h) {
        const std::vector<double> want = attention(ropes, l, h, queries[i], text);
        for (std::size_t c = 0; c < kD; ++c) {
          const double got =
              static_cast<double>(outs[i][static_cast<std::size_t>(l)][static_cast<std::size_t>(h * kD) + c]);
          wrong += (got - want[c]) * (got - want[c]);
          size += want[c] * want[c];
        }
      }
  return std::sqrt(wrong / size);
}

CacheOptions options(const std::string& codec, int tokens = 4096) {
  return {.k_codec = codec,
          .v_codec = codec,
          .max_tokens = tokens,
          .max_sequences = 3,
          .device = fixture::suite_device(),
          .whole_windows = true};
}

std::vector<std::byte> page_of(Cache& cache, const Sequence& s, std::int64_t page) {
  std::vector<std::byte> bytes;
  for (const auto piece : cache.bytes().sealed_page(s, page)) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

// A text that was encoded before, and its sealed pages.
struct Source {
  std::vector<Rows> rows;
  std::vector<std::vector<std::byte>> pages;

  Source(Team& team, const Ropes& ropes, const std::string& codec, int n, std::uint64_t seed) {
    std::vector<Placed> text;
    for (int i = 0; i < n; ++i) rows.push_back(make_row(seed + static_cast<std::uint64_t>(i)));
    for (int i = 0; i < n; ++i) text.push_back({&rows[static_cast<std::size_t>(i)], i});
    Cache cache(team, shape(), options(codec));
    Sequence* s = cache.create();
    feed(cache, s, ropes, text, 200);
    for (std::int64_t p = 0; p < cache.stats(*s).sealed_tokens / kPageTokens; ++p)
      pages.push_back(page_of(cache, *s, p));
  }
};

// A text of which parts are borrowed.
struct Plan {
  std::int64_t prefix = 0;
  struct Run {
    std::int64_t begin, end, made_at;
    int source;
  };
  std::vector<Run> runs;
  std::vector<std::int64_t> fresh;
  std::int64_t total = 0;
};

Plan random_plan(std::mt19937& rng, const std::vector<Source>& sources, double ratio) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
  };
  Plan p;
  p.prefix = pick(0, 2) == 0 ? 0 : pick(1, 400);
  std::int64_t at = p.prefix;
  const std::int64_t runs = pick(1, 4);
  for (std::int64_t i = 0; i < runs; ++i) {
    if (pick(0, 2) > 0)
      for (std::int64_t end = at + pick(1, 150); at < end; ++at) p.fresh.push_back(at);
    const int source = static_cast<int>(pick(0, static_cast<std::int64_t>(sources.size()) - 1));
    const auto sealed = static_cast<std::int64_t>(sources[static_cast<std::size_t>(source)].pages.size()) * kPageTokens;
    const std::int64_t made_at = pick(4, sealed - 1);  // the first four are sinks there
    const std::int64_t end = at + pick(1, std::min<std::int64_t>(sealed - made_at, 330));
    p.runs.push_back({at, end, made_at, source});
    const std::int64_t first = pick(0, 2) * 8;
    for (std::int64_t t = at; t < end; ++t)
      if (t < at + first || std::uniform_real_distribution<double>(0, 1)(rng) < ratio) p.fresh.push_back(t);
    at = end;
  }
  for (std::int64_t end = at + pick(1, 200); at < end; ++at) p.fresh.push_back(at);
  p.total = at;
  return p;
}

// The same text as a sequence sees it, token by token.
struct Scene {
  std::vector<Rows> own;  // of every position
  std::vector<Placed> text, prefix, fresh;

  Scene(const Plan& p, const std::vector<Source>& sources, std::uint64_t seed) {
    for (std::int64_t i = 0; i < p.total; ++i) own.push_back(make_row(seed + static_cast<std::uint64_t>(i)));
    for (std::int64_t i = 0; i < p.total; ++i) text.push_back({&own[static_cast<std::size_t>(i)], i});
    for (const Plan::Run& r : p.runs)
      for (std::int64_t i = r.begin; i < r.end; ++i)
        text[static_cast<std::size_t>(i)].rows =
            &sources[static_cast<std::size_t>(r.source)].rows[static_cast<std::size_t>(r.made_at + i - r.begin)];
    for (const std::int64_t i : p.fresh) text[static_cast<std::size_t>(i)].rows = &own[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < p.prefix; ++i) prefix.push_back(text[static_cast<std::size_t>(i)]);
    for (const std::int64_t i : p.fresh) fresh.push_back(text[static_cast<std::size_t>(i)]);
  }
};

void borrow(Cache& cache, Sequence* s, const Plan& p, const std::vector<Source>& sources) {
  std::map<std::pair<int, std::int64_t>, std::int32_t> slots;
  std::vector<BorrowedRun> runs;
  for (const Plan::Run& r : p.runs) {
    BorrowedRun run{r.begin, r.end, r.made_at, {}};
    for (std::int64_t i = r.made_at / kPageTokens; i <= (r.made_at + r.end - r.begin - 1) / kPageTokens; ++i) {
      const auto [at, is_new] = slots.try_emplace({r.source, i}, 0);
      if (is_new)
        at->second = cache.borrowing().adopt_page(
            sources[static_cast<std::size_t>(r.source)].pages[static_cast<std::size_t>(i)]);
      run.slots.push_back(at->second);
    }
    runs.push_back(run);
  }
  cache.borrowing().borrow(s, runs, p.fresh);
  for (const auto& [key, slot] : slots) cache.borrowing().drop_page(slot);
  cache.check_integrity();
}

Outputs run(Cache& cache, Sequence* s, const Ropes& ropes, const Plan& p, const Scene& scene,
            const std::vector<Source>& sources, std::size_t chunk, bool decode = false) {
  feed(cache, s, ropes, scene.prefix, 128);
  borrow(cache, s, p, sources);
  Outputs outs = feed(cache, s, ropes, scene.fresh, chunk, decode);
  EXPECT_EQ(Cache::length(*s), p.total);
  return outs;
}

TEST(Borrow, RandomPlansGiveWhatDenseAttentionGives) {
  const Ropes ropes;
  Team team(2);
  std::mt19937 rng(7);
  simd::on_every_isa([&] {
    std::vector<Source> sources;
    for (const int n : {400, 600}) sources.emplace_back(team, ropes, "f32", n, 1000u * static_cast<unsigned>(n));
    for (int round = 0; round < 4; ++round) {
      SCOPED_TRACE(round);
      const Plan p = random_plan(rng, sources, round % 4 == 0 ? 0.0 : 0.1 * round);
      const Scene scene(p, sources, 77u + static_cast<unsigned>(round));
      Cache cache(team, shape(), options("f32"));
      Sequence* s = cache.create();
      const std::size_t chunk = round % 3 == 0 ? 1 : round % 3 == 1 ? 300 : 37;
      const Outputs outs = run(cache, s, ropes, p, scene, sources, chunk, chunk == 1);
      EXPECT_LT(error(ropes, scene.fresh, outs, scene.text), 1e-5);
      // Chunks do not show.
      Sequence* other = cache.create();
      EXPECT_EQ(run(cache, other, ropes, p, scene, sources, 150), outs);
      EXPECT_EQ(cache.bytes().digest(*s), cache.bytes().digest(*other));
      cache.release(s);
      cache.release(other);
      cache.check_integrity();
      EXPECT_EQ(cache.stats().free_pages, cache.memory().pages);
    }
  });
}

// A whole text that stood 31 tokens further on, and its tokens encoded at the new place: f32 within 1e-5 of the double
// reference, the others with at most a half more error than they have where pages stand where they were made.
TEST(Borrow, EveryCodecReadsPagesAtAnotherPlaceAsIfTheyWereEncodedThere) {
  const Ropes ropes;
  Team team(2);
  simd::on_every_isa([&] {
    for (const auto& entry : codecs()) {
      const std::string codec(entry.name);
      if (!entry.value->k.bytes || !entry.value->v.bytes) continue;
      SCOPED_TRACE(codec);
      std::vector<Source> sources;
      sources.emplace_back(team, ropes, codec, 390, 5);
      Plan p{.prefix = 0, .runs = {{0, 225, 31, 0}}, .fresh = {}, .total = 266};
      for (std::int64_t i = 225; i < p.total; ++i) p.fresh.push_back(i);
      const Scene scene(p, sources, 3);
      Cache cache(team, shape(), options(codec));
      Sequence* s = cache.create();
      Outputs moved = run(cache, s, ropes, p, scene, sources, 41);
      CacheOptions all_sealed = options(codec);
      all_sealed.window = all_sealed.sinks = 0;
      Cache second(team, shape(), all_sealed);
      Sequence* there = second.create();
      const std::span<const Placed> text = scene.text;
      feed(second, there, ropes, text.first(256), 256);
      const std::span<const Placed> last = text.subspan(256);
      const double here = error(ropes, last, feed(second, there, ropes, last, 10), scene.text);
      moved.erase(moved.begin(), moved.end() - 10);
      EXPECT_LT(error(ropes, last, moved, scene.text), codec == "f32" ? 1e-5 : 1.5 * here + 1e-5) << here;
    }
  });
}

TEST(Borrow, ForksGoOnAloneAndCutsStayBehindTheText) {
  const Ropes ropes;
  Team team(2);
  std::mt19937 rng(11);
  std::vector<Source> sources;
  sources.emplace_back(team, ropes, "rq8", 800, 41);
  const Plan p = random_plan(rng, sources, 0.15);
  const Scene scene(p, sources, 43);
  std::vector<Rows> more;
  std::vector<Placed> behind;
  for (int i = 0; i < 200; ++i) more.push_back(make_row(9000u + static_cast<unsigned>(i)));
  for (int i = 0; i < 200; ++i) behind.push_back({&more[static_cast<std::size_t>(i)], p.total + i});
  const std::span<const Placed> answer = behind;
  Cache cache(team, shape(), options("rq8"));
  Sequence* s = cache.create();
  run(cache, s, ropes, p, scene, sources, 64);
  EXPECT_TRUE(Borrowing::borrows(*s));
  EXPECT_EQ(Rules::exact_tokens(*s), p.prefix);
  Sequence* copy = cache.fork(*s);
  cache.check_integrity();
  const Outputs one = feed(cache, s, ropes, answer.first(40), 1, true);
  cache.release(s);
  const Outputs two = feed(cache, copy, ropes, answer.first(40), 1, true);
  EXPECT_EQ(one, two);
  // Within the page it can be cut; to within the borrowed text it cannot.
  if (cache.rules().can_truncate(*copy, p.total + 39)) {
    cache.truncate(copy, p.total + 39);
    EXPECT_EQ(Cache::length(*copy), p.total + 39);
    EXPECT_EQ(step(cache, copy, ropes, answer.subspan(39, 1), true).back(), two.back());
  }
  EXPECT_FALSE(cache.rules().can_truncate(*copy, p.total - 1));
  EXPECT_THROW(cache.truncate(copy, p.runs[0].begin + 1), Error);
  cache.truncate(copy, 0);
  EXPECT_FALSE(Borrowing::borrows(*copy));
  cache.check_integrity();
  EXPECT_EQ(cache.stats().free_pages, cache.memory().pages);
}

TEST(Borrow, SequencesBesideIt) {
  const Ropes ropes;
  Team team(2);
  std::mt19937 rng(13);
  std::vector<Source> sources;
  sources.emplace_back(team, ropes, "rq4", 700, 51);
  const Plan p = random_plan(rng, sources, 0.15);
  const Scene scene(p, sources, 53);
  Cache cache(team, shape(), options("rq4"));
  const std::span<const Placed> text = scene.text;
  const std::int64_t n = std::min<std::int64_t>(p.total, 300);
  Sequence* alone = cache.create();
  const Outputs want = feed(cache, alone, ropes, text.first(static_cast<std::size_t>(n)), 100);
  Sequence* s = cache.create();
  run(cache, s, ropes, p, scene, sources, 90);
  Sequence* beside = cache.create();
  EXPECT_EQ(feed(cache, beside, ropes, text.first(static_cast<std::size_t>(n)), 100), want);
  EXPECT_EQ(cache.bytes().digest(*alone), cache.bytes().digest(*beside));
}

TEST(Borrow, UnsealedRowsAreThoseThatWereSealed) {
  const Ropes ropes;
  Team team(1);
  const Source source(team, ropes, "f32", 500, 61);
  Cache cache(team, shape(), options("f32"));
  std::vector<float> k(kPageTokens * kKv * kD), v(k.size());
  for (int l = 0; l < kLayers; ++l) {
    cache.borrowing().unseal(source.pages[1], l, 0, k.data(), v.data());
    for (const int t : {0, 5, 127}) {
      Row row = source.rows[static_cast<std::size_t>(kPageTokens + t)][static_cast<std::size_t>(l)];
      for (int h = 0; h < kKv; ++h) ropes.apply(l, row.k.data() + h * kD, kPageTokens + t);
      EXPECT_EQ(row.k, std::vector<float>(k.begin() + t * kKv * kD, k.begin() + (t + 1) * kKv * kD));
      EXPECT_EQ(row.v, std::vector<float>(v.begin() + t * kKv * kD, v.begin() + (t + 1) * kKv * kD));
    }
  }
}

// Layers with windows that keep all pages compute what they compute anyway, and can be kept, cut and forked.
TEST(Borrow, WholeWindowsChangeNoBit) {
  const Ropes ropes;
  Team team(2);
  std::vector<Rows> rows;
  std::vector<Placed> text;
  for (unsigned i = 0; i < 900; ++i) rows.push_back(make_row(70 + i));
  for (std::size_t i = 0; i < rows.size(); ++i) text.push_back({&rows[i], static_cast<std::int64_t>(i)});
  const std::span<const Placed> all = text, prompt = all.first(860), answer = all.subspan(860);
  simd::on_every_isa([&] {
    for (const char* codec : {"f16", "rq4"}) {
      SCOPED_TRACE(codec);
      CacheOptions rings = options(codec);
      rings.whole_windows = false;
      Cache plain(team, shape(), rings), whole(team, shape(), options(codec));
      EXPECT_GT(whole.memory().chunk_bytes, plain.memory().chunk_bytes);
      EXPECT_EQ(whole.memory().local_bytes, 0u);
      Sequence *a = plain.create(), *b = whole.create();
      EXPECT_EQ(feed(plain, a, ropes, prompt, 300), feed(whole, b, ropes, prompt, 170));
      // Restored from its pages and tail, and forked, it goes on with the same bits.
      std::vector<std::byte> tail(whole.rules().tail_bytes(860));
      whole.bytes().save_tail(*b, 860, tail);
      Sequence* c = whole.bytes().restore(860, tail);
      for (std::int64_t page = 0; page < whole.stats(*b).sealed_tokens / kPageTokens; ++page)
        whole.bytes().fill_page(*c, page, page_of(whole, *b, page));
      EXPECT_EQ(whole.bytes().digest(*b), whole.bytes().digest(*c));
      Sequence* d = whole.fork(*c);
      const Outputs want = feed(plain, a, ropes, answer, 1, true);
      for (Sequence* s : {b, c, d}) EXPECT_EQ(feed(whole, s, ropes, answer, 1, true), want);
      whole.check_integrity();
      // Cut to where windows of other caches have nothing any more.
      if (std::string(codec) == "f16") {
        EXPECT_FALSE(plain.rules().can_truncate(*a, 200));
        ASSERT_TRUE(whole.rules().can_truncate(*d, 200));
        whole.truncate(d, 200);
        Sequence* fresh = plain.create();
        feed(plain, fresh, ropes, all.first(200), 200);
        EXPECT_EQ(feed(whole, d, ropes, all.subspan(200, 100), 100),
                  feed(plain, fresh, ropes, all.subspan(200, 100), 100));
      }
    }
  });
}

TEST(Borrow, LayersThatKeepNoPagesAreRefused) {
  Team team(1);
  for (const LayerShape& layer :
       {LayerShape{.kv_heads = 1, .query_heads = 1, .head_dim = 64, .head_dim_v = 64, .window = 300},
        LayerShape{.kv_heads = 1, .query_heads = 1, .head_dim = 64, .head_dim_v = 64, .latent = true}}) {
    CacheOptions o = options("f16");
    o.whole_windows = false;
    Cache cache(team, CacheShape::uniform(1, layer), o);
    Sequence* s = cache.create();
    const std::int64_t fresh[] = {0, 1};
    EXPECT_THROW(cache.borrowing().borrow(s, {}, fresh), Error);
    EXPECT_FALSE(Borrowing::borrows(*s));
  }
}

}  // namespace borrow_test
}  // namespace kvasir::kv
