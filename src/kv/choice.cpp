#include "kv/choice.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.hpp"
#include "kernel/attention.hpp"

namespace kvasir::kv {

BlockCut cut_blocks(const SelectSpec& spec, std::int64_t tokens, std::int64_t raw_from) {
  const std::int64_t b = spec.block;
  BlockCut c;
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
  if (!c.dense && !spec.selector->width && !spec.selector->dense) c.chosen = 0;
  c.local = std::max(c.initial, c.blocks - kept);
  return c;
}

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

float number_or_none(float x) { return x == x ? x : kNone; }

}  // namespace

// Calls whole(at) for every piece of 128 in [begin, end), and part(from, to) for what is left on both sides. Loops of a
// length that the compiler knows become vectors.
template <class Whole, class Part>
static void each_piece(std::int64_t begin, std::int64_t end, Whole&& whole, Part&& part) {
  const std::int64_t first = std::min(end, (begin + kPageTokens - 1) / kPageTokens * kPageTokens);
  const std::int64_t last = std::max(first, end / kPageTokens * kPageTokens);
  part(begin, first);
  for (std::int64_t at = first; at < last; at += kPageTokens) whole(at);
  part(last, end);
}

// The largest of them; what is no number becomes none.
static float largest_number(float* row, std::int64_t begin, std::int64_t end) {
  constexpr int kLanes = 16;
  float most[kLanes];
  std::fill_n(most, kLanes, kNone);
  each_piece(
      begin, end,
      [&](std::int64_t at) {
        for (int j = 0; j < kPageTokens; j += kLanes)
          for (int l = 0; l < kLanes; ++l) {
            float& x = row[at + j + l];
            x = number_or_none(x);
            most[l] = most[l] < x ? x : most[l];
          }
      },
      [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) most[0] = std::max(most[0], row[i] = number_or_none(row[i]));
      });
  return *std::max_element(most, most + kLanes);
}

PowerSum add_powers(float* row, std::int64_t begin, std::int64_t end) {
  const float most = largest_number(row, begin, end);
  if (most == kNone) return {kNone, 0};
  // Piece by piece, each by its own maximum; then all by the largest.
  double sum = 0;
  for (std::int64_t at = begin / kPageTokens * kPageTokens; at < end; at += kPageTokens) {
    const int from = static_cast<int>(std::max<std::int64_t>(begin - at, 0));
    const int to = static_cast<int>(std::min<std::int64_t>(end - at, kPageTokens));
    float piece_most, piece_sum;
    kernel::attention().weigh(row + at, kPageTokens, 1, &from, &to, &piece_most, &piece_sum);
    const float factor = std::exp2(piece_most - most);
    sum += static_cast<double>(piece_sum) * factor;
    for (int i = 0; i < kPageTokens; ++i) row[at + i] *= factor;  // 0 outside [begin, end)
  }
  return {most, sum};
}

// Shares of 2^score, row by row, added to the votes.
static void add_masses(float* scores, std::ptrdiff_t stride, int rows, std::int64_t begin, std::int64_t end,
                       float* votes) {
  for (int r = 0; r < rows; ++r) {
    float* const row = scores + r * stride;
    const PowerSum all = add_powers(row, begin, end);
    if (all.sum == 0) continue;
    const auto share = static_cast<float>(1 / all.sum);
    const auto add = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) votes[i] += row[i] * share;
    };
    each_piece(
        begin, end, [&](std::int64_t at) { add(at, at + kPageTokens); }, add);
  }
}

void vote(Vote how, float* scores, std::ptrdiff_t stride, int rows, std::int64_t begin, std::int64_t end,
          float* votes) {
  std::fill(votes + begin, votes + end, how == Vote::kBest ? kNone : 0.0f);
  if (how == Vote::kMass) return add_masses(scores, stride, rows, begin, end, votes);
  for (int r = 0; r < rows; ++r) {
    const float* const row = scores + r * stride;
    if (how == Vote::kSum) {
      for (std::int64_t i = begin; i < end; ++i) votes[i] += row[i];
      continue;
    }
    float most = kNone;
    for (std::int64_t i = begin; i < end; ++i) most = std::max(most, number_or_none(row[i]));
    if (most == kNone) continue;
    for (std::int64_t i = begin; i < end; ++i) votes[i] = std::max(votes[i], number_or_none(row[i]) - most);
  }
}

namespace {

// Larger for a better vote, then for a later block.
std::uint64_t key_of(float vote, std::int64_t i) {
  const auto bits = std::bit_cast<std::uint32_t>(number_or_none(vote) + 0.0f);
  const std::uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  return std::uint64_t{ordered} << 32 | static_cast<std::uint32_t>(i);
}
std::int64_t block_of(std::uint64_t key) { return static_cast<std::int64_t>(key & 0xffffffffu); }

// The `count` largest of n keys come first, 0 < count < n. Keys are counted by their highest bits, so only those that
// share these bits with the last one to come are compared with each other: comparing all takes three times as long,
// because which one is larger cannot be foreseen.
void best_first(std::uint64_t* keys, std::int64_t n, std::int64_t count) {
  constexpr int kBits = 11;
  constexpr int kShift = 64 - kBits;
  std::int32_t counts[1 << kBits] = {};
  for (std::int64_t i = 0; i < n; ++i) ++counts[keys[i] >> kShift];
  std::uint64_t bin = (1 << kBits) - 1;
  std::int64_t above = 0;  // in higher bins
  while (above + counts[bin] < count) above += counts[bin--];
  // Those of higher bins to the front, then those of the bin.
  std::uint64_t* const middle = std::partition(keys, keys + n, [&](std::uint64_t k) { return k >> kShift > bin; });
  std::uint64_t* const end = std::partition(middle, keys + n, [&](std::uint64_t k) { return k >> kShift == bin; });
  std::nth_element(middle, keys + count - 1, end, std::greater<>());
}

}  // namespace

void pick(const float* votes, std::int64_t begin, std::int64_t end, std::int64_t count, double p, std::uint64_t* keys,
          std::uint8_t* picked) {
  if (end <= begin) return;
  std::fill(picked + begin, picked + end, std::uint8_t{0});
  const std::int64_t n = end - begin;
  count = std::min(count, n);
  if (count <= 0) return;
  for (std::int64_t i = 0; i < n; ++i) keys[i] = key_of(votes[begin + i], begin + i);
  if (count < n) best_first(keys, n, count);
  if (p > 0) {
    std::sort(keys, keys + count, std::greater<>());
    double all = 0;
    for (std::int64_t i = begin; i < end; ++i) all += static_cast<double>(votes[i]);
    double sum = 0;
    std::int64_t enough = 0;
    while (enough < count && (enough == 0 || sum < p * all))
      sum += static_cast<double>(votes[block_of(keys[enough++])]);
    count = enough;
  }
  for (std::int64_t i = 0; i < count; ++i) picked[block_of(keys[i])] = 1;
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

void pool_units(std::span<const float> units, float* votes) {
  KVASIR_CHECK(units.size() % 4 == 0);
  const auto n = static_cast<std::int64_t>(units.size());
  for (std::int64_t b = 0; b < n / 4; ++b) {
    float sum = 0;
    for (std::int64_t u = std::max<std::int64_t>(0, 4 * b - 1); u < std::min(n, 4 * b + 5); ++u)
      sum += units[static_cast<std::size_t>(u)];
    votes[b] = sum;
  }
}

int runs_of(const std::uint8_t* picked, std::int64_t blocks, int block, PageRun* to) {
  const std::int64_t per_page = kPageTokens / block;
  const int units = block / 16;
  int count = 0;
  for (std::int64_t i = 0; i < blocks; ++i) {
    if (!picked[i]) continue;
    const auto place = static_cast<int>(i % per_page);
    if (place > 0 && picked[i - 1]) {
      to[count - 1].end = static_cast<std::uint8_t>((place + 1) * units);
    } else {
      to[count++] = {static_cast<std::int32_t>(i / per_page), static_cast<std::uint8_t>(place * units),
                     static_cast<std::uint8_t>((place + 1) * units)};
    }
  }
  return count;
}

}  // namespace kvasir::kv
