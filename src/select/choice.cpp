#include "select/choice.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/check.hpp"

namespace kvasir::select {

kv::BlockCut cut_blocks(const SelectSpec& spec, std::int64_t tokens, std::int64_t raw_from) {
  const std::int64_t b = spec.block;
  kv::BlockCut c;
  c.blocks = tokens / b;
  c.sealed = raw_from / b;
  const std::int64_t raw = std::max<std::int64_t>(0, c.blocks - c.sealed);
  const std::int64_t budget = spec.budget_of(tokens);
  const std::int64_t local = spec.local >= 0 ? spec.local : std::min<std::int64_t>(1024, budget / 4);
  const std::int64_t initial = spec.initial >= 0 ? spec.initial : std::max<std::int64_t>(b, 64);
  c.initial = std::min(c.blocks, (initial + b - 1) / b);
  const std::int64_t kept = std::max(local / b, raw);
  c.chosen = std::max<std::int64_t>(1, (budget + b - 1) / b - c.initial - kept);
  c.dense = tokens < spec.from || c.blocks <= c.initial + c.chosen + kept;
  if (!c.dense && !spec.selector->width && !spec.selector->dense && !spec.selector->exact) c.chosen = 0;
  c.local = std::max(c.initial, c.blocks - kept);
  return c;
}

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

float number_or_none(float x) { return x == x ? x : kNone; }

}  // namespace

PowerSum add_powers(float* scores, std::int64_t begin, std::int64_t end) {
  const float most = choices().largest(scores + begin, end - begin);
  if (most == kNone) return {kNone, 0};
  return {most, choices().powers(scores + begin, end - begin, most, scores + begin)};
}

void vote(Vote how, const float* scores, std::ptrdiff_t stride, int rows, std::int64_t begin, std::int64_t end,
          float* powers, RowVote* counts, float* votes) {
  std::fill(votes + begin, votes + end, how == Vote::kBest ? kNone : 0.0f);
  const std::int64_t n = end - begin;
  for (int r = 0; r < rows; ++r) {
    const float* const row = scores + r * stride + begin;
    RowVote& count = counts[r] = {how == Vote::kSum ? 0.0f : choices().largest(row, n), 1};
    if (count.most == kNone) continue;
    if (how == Vote::kMass) {
      count.share = static_cast<float>(1 / choices().powers(row, n, count.most, powers));
      choices().add_times(powers, n, count.share, votes + begin);
    } else if (how == Vote::kSum) {
      choices().add_times(row, n, 1, votes + begin);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        votes[begin + i] = std::max(votes[begin + i], number_or_none(row[i]) - count.most);
    }
  }
}

void vote_again(Vote how, float* scores, std::ptrdiff_t stride, int rows, std::int64_t n, const RowVote* counts,
                float* votes) {
  std::fill_n(votes, n, how == Vote::kBest ? kNone : 0.0f);
  for (int r = 0; r < rows; ++r) {
    float* const row = scores + r * stride;
    const RowVote& count = counts[r];
    if (count.most == kNone) continue;
    if (how == Vote::kBest) {
      for (std::int64_t i = 0; i < n; ++i) votes[i] = std::max(votes[i], number_or_none(row[i]) - count.most);
      continue;
    }
    if (how == Vote::kMass) choices().powers(row, n, count.most, row);
    choices().add_times(row, n, count.share, votes);
  }
}

namespace {

// Floats by their bits: a larger number for a larger float.
std::int32_t order_of(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
float float_at(std::int32_t order) { return std::bit_cast<float>(order < 0 ? order ^ 0x7fffffff : order); }

// The largest number that at least `count` of n are not below, or one that at most `spare` more are not below.
float limit_of(const float* x, std::int64_t n, std::int64_t count, std::int64_t spare, float least) {
  std::int64_t low = order_of(least), high = std::int64_t{order_of(choices().largest(x, n))} + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::int64_t found = choices().count_from(x, n, float_at(static_cast<std::int32_t>(middle)));
    if (found < count) {
      high = middle;
      continue;
    }
    low = middle;
    if (found <= count + spare) break;
  }
  return float_at(static_cast<std::int32_t>(low));
}

}  // namespace

// Few blocks can be among the best: those above a limit that the maxima of groups give, because at least `count` maxima
// are. Nothing is sorted, and nothing is compared whose outcome cannot be foreseen.
std::int64_t best(const float* votes, std::int64_t begin, std::int64_t end, std::int64_t count, float* scratch,
                  std::int32_t* to) {
  const std::int64_t n = std::max<std::int64_t>(0, end - begin);
  count = std::min(count, n);
  if (count <= 0) return 0;
  constexpr int kVector = 16;
  constexpr std::int64_t kMostGroups = 2048;
  int vectors = 4;
  while (n > kMostGroups * vectors) vectors *= 2;
  const std::int64_t piece = std::int64_t{vectors} * kVector;
  const std::int64_t pieces = (n + piece - 1) / piece;
  const float* const x = votes + begin;
  std::int64_t found = 0;
  const auto take = [&](std::int64_t i, float least) {
    const float vote = number_or_none(x[i]);
    scratch[found] = vote;
    to[found] = static_cast<std::int32_t>(begin + i);
    found += vote >= least;
  };
  if (count < n && pieces * kVector >= 2 * count) {
    alignas(64) float groups[kMostGroups + kVector];
    choices().maxima(x, n, vectors, groups);
    const float least = limit_of(groups, pieces * kVector, count, count / 8, kNone);
    for (std::int64_t p = 0; p < pieces; ++p)
      for (int l = 0; l < kVector; ++l)
        if (groups[p * kVector + l] >= least)
          for (std::int64_t i = p * piece + l; i < std::min(n, (p + 1) * piece); i += kVector) take(i, least);
  } else {
    for (std::int64_t i = 0; i < n; ++i) take(i, kNone);
  }
  const float last = limit_of(scratch, found, count, 0, kNone);
  std::int64_t above = 0, equal = 0;
  for (std::int64_t i = 0; i < found; ++i) {
    above += scratch[i] > last;
    equal += scratch[i] == last;
  }
  const bool ties = equal > count - above;  // at the limit; then the later ones
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < found; ++i) {
    to[kept] = to[i];
    kept += ties ? scratch[i] > last : scratch[i] >= last;
  }
  for (std::int64_t i = n - 1; kept < count; --i)
    if (number_or_none(x[i]) == last) to[kept++] = static_cast<std::int32_t>(begin + i);
  return count;
}

void pick(const float* votes, std::int64_t begin, std::int64_t end, std::int64_t count, double p, std::uint64_t* keys,
          std::uint8_t* picked) {
  if (end <= begin) return;
  std::fill(picked + begin, picked + end, std::uint8_t{0});
  // The first half of the room is scratch, the second has the blocks.
  auto* const blocks = reinterpret_cast<std::int32_t*>(keys) + (end - begin);
  count = best(votes, begin, end, count, reinterpret_cast<float*>(keys), blocks);
  if (p > 0) {
    std::sort(blocks, blocks + count, [&](std::int32_t a, std::int32_t b) {
      const float x = number_or_none(votes[a]), y = number_or_none(votes[b]);
      return x != y ? x > y : a > b;
    });
    double all = 0;
    for (std::int64_t i = begin; i < end; ++i) all += static_cast<double>(votes[i]);
    double sum = 0;
    std::int64_t enough = 0;
    while (enough < count && (enough == 0 || sum < p * all)) sum += static_cast<double>(votes[blocks[enough++]]);
    count = enough;
  }
  for (std::int64_t i = 0; i < count; ++i) picked[blocks[i]] = 1;
}

int level_of(double share) {
  const double left = 1 - std::min(share, 1.0);
  return left <= 0 ? 120 : std::clamp(static_cast<int>(std::lround(-8 * std::log2(left))), 1, 120);
}

double share_of(int level) { return 1 - std::exp2(-level / 8.0); }

int next_level(int level, double mass, double aim) {
  if (mass < aim) return std::min(level + 8, 120);
  return 1 - mass < (1 - aim) / 2 ? std::max(level - 2, 1) : level;
}

void pool_units(std::span<const float> units, std::int64_t per_block, std::int64_t reach, float* votes) {
  const auto n = static_cast<std::int64_t>(units.size());
  KVASIR_CHECK(n % per_block == 0);
  for (std::int64_t b = 0; b < n / per_block; ++b) {
    float sum = 0;
    const std::int64_t begin = std::max<std::int64_t>(0, b * per_block - reach);
    for (std::int64_t u = begin; u < std::min(n, (b + 1) * per_block + reach); ++u)
      sum += units[static_cast<std::size_t>(u)];
    votes[b] = sum;
  }
}

// Of blocks of less than kLeastRun tokens.
static int masked_runs(const std::uint8_t* picked, std::int64_t blocks, int block, kv::PageRun* to) {
  const int per_page = kv::kPageTokens / block;
  int count = 0;
  for (std::int64_t page = 0; page * per_page < blocks; ++page) {
    const std::uint8_t* const here = picked + page * per_page;
    const auto n = static_cast<int>(std::min<std::int64_t>(per_page, blocks - page * per_page));
    int first = 0, last = n - 1;
    while (first < n && !here[first]) ++first;
    if (first == n) continue;
    while (!here[last]) --last;
    kv::PageRun run{static_cast<std::int32_t>(page), static_cast<std::uint8_t>(first * block),
                    static_cast<std::uint8_t>((last + 1) * block)};
    for (int t = run.begin; t < run.end; ++t)
      if (!here[t / block]) run.hidden[t / 64] |= std::uint64_t{1} << (t % 64);
    run.hides = (run.hidden[0] | run.hidden[1]) != 0;
    to[count++] = run;
  }
  return count;
}

int runs_of(const std::uint8_t* picked, std::int64_t blocks, int block, kv::PageRun* to) {
  if (block < kLeastRun) return masked_runs(picked, blocks, block, to);
  const std::int64_t per_page = kv::kPageTokens / block;
  int count = 0;
  for (std::int64_t i = 0; i < blocks; ++i) {
    if (!picked[i]) {  // most are not: eight at a time
      std::uint64_t eight;
      while (i + 8 < blocks && (std::memcpy(&eight, picked + i, 8), eight == 0)) i += 8;
      if (!picked[i]) continue;
    }
    const auto place = static_cast<int>(i % per_page);
    if (place > 0 && picked[i - 1]) {
      to[count - 1].end = static_cast<std::uint8_t>((place + 1) * block);
    } else {
      to[count++] = {static_cast<std::int32_t>(i / per_page), static_cast<std::uint8_t>(place * block),
                     static_cast<std::uint8_t>((place + 1) * block)};
    }
  }
  return count;
}

}  // namespace kvasir::select
