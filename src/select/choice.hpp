// Which blocks a generated token reads, from scores of blocks: counts, votes of heads, ties. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/page_run.hpp"
#include "select/spec.hpp"
#include "simd/isa.hpp"

namespace kvasir::select {

// tokens: seen by the query, itself included. raw_from: the first token that is raw, a multiple of the block.
kv::BlockCut cut_blocks(const SelectSpec& spec, std::int64_t tokens, std::int64_t raw_from);

// How the scores of a query row count, see Vote: their largest, and what shares of 2^(score - most) are times.
struct RowVote {
  float most;
  float share;
};
// Scores (rows, stride) of blocks [begin, end) become one vote of each: votes[i], i in [begin, end). Row r counts as
// counts[r] says afterwards. powers: room for `end`.
void vote(Vote how, const float* scores, std::ptrdiff_t stride, int rows, std::int64_t begin, std::int64_t end,
          float* powers, RowVote* counts, float* votes);
// The votes of blocks [0, n) whose scores are known better now, by what the rows counted before. Scores are spent.
void vote_again(Vote how, float* scores, std::ptrdiff_t stride, int rows, std::int64_t n, const RowVote* counts,
                float* votes);

// The sum of 2^scores[i] over [begin, end) is 2^most * sum; sum is 0 and most -infinity where no score is a number.
// scores[i] become 2^(scores[i] - most).
struct PowerSum {
  float most;
  double sum;
};
PowerSum add_powers(float* scores, std::int64_t begin, std::int64_t end);

// The `count` best of [begin, end), all of them if there are fewer, in no order; returns how many. Of equal votes
// the later block's; a vote that is no number is none (-infinity). scratch: room for end - begin floats.
std::int64_t best(const float* votes, std::int64_t begin, std::int64_t end, std::int64_t count, float* scratch,
                  std::int32_t* to);
// picked[i] = 1 for the `count` best of [begin, end) and 0 for the others there. With p > 0 only as many of these as
// have the share p of all votes of the range, at least one. keys: room for end - begin.
void pick(const float* votes, std::int64_t begin, std::int64_t end, std::int64_t count, double p, std::uint64_t* keys,
          std::uint8_t* picked);

// Numbers that are no numbers count as -infinity.
struct ChoiceKernels {
  float (*largest)(const float* x, std::int64_t n);
  // to[i] = 2^(x[i] - most); returns their sum. An x above most + 126
  // counts as that. to may be x.
  double (*powers)(const float* x, std::int64_t n, float most, float* to);
  void (*add_times)(const float* x, std::int64_t n, float factor, float* to);  // to[i] += factor * x[i]
  // Of every `vectors` vectors of x the largest, lane by lane: 16 numbers for 16 * vectors, the last ones for what is
  // left.
  void (*maxima)(const float* x, std::int64_t n, int vectors, float* to);
  // How many are not less. REQUIRES: n < 2^24
  std::int64_t (*count_from)(const float* x, std::int64_t n, float least);
  // to[i] = the sum of `unit` numbers from x + i * unit on. REQUIRES: unit is 4, 8 or 16
  void (*unit_sums)(const float* x, int units, int unit, float* to);
};

KVASIR_DECLARE_KERNELS(ChoiceKernels, choices)

// Levels of a share that moves with what is measured: 1 - 2^(-level / 8), level 1 to 120; level 0 stands for none. The
// next one where a choice by `level` held `mass` and `aim` is wanted: what is left out is halved at once when it is too
// much, and grows slowly when it is less than half of what may be.
int level_of(double share);
double share_of(int level);
int next_level(int level, double mass, double aim);

// Votes of a prompt's blocks of `per_block` units, of the units' importance: the units of a block and `reach` on both
// sides (SnapKV's pooling; Li et al. 2024, arXiv:2404.14469). votes: (units / per_block)
void pool_units(std::span<const float> units, std::int64_t per_block, std::int64_t reach, float* votes);

// Blocks of fewer tokens have one run a page, which leaves some of its tokens out: a page is read as fast as a run.
inline constexpr int kLeastRun = 16;

// Runs of blocks [0, blocks) that are picked, page by page. Returns how many, at most runs_per_page for every page.
int runs_of(const std::uint8_t* picked, std::int64_t blocks, int block, kv::PageRun* to);
// Most runs of a page.
constexpr int runs_per_page(int block) {
  return block == kv::kPageTokens || block < kLeastRun ? 1 : kv::kPageTokens / block / 2;
}

}  // namespace kvasir::select
