// Memory that choosing blocks needs: a thread's while it chooses, what the heads of a step's slices answered, and what
// of a choice is kept from step to step. Sizes depend on the cache's layout alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "kv/layout.hpp"
#include "select/choice.hpp"
#include "select/outline.hpp"
#include "select/summaries.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

// Of a layer and head of a sequence. All bytes 0: nothing was chosen.
struct ChoiceState {
  std::int64_t chosen_at;  // position + 1 of the query that chose; 0: none
  std::int64_t local;      // BlockCut::local then
  std::int64_t voted_at;   // position + 1 of the query that preselected; 0: none
  std::int64_t voted_to;   // blocks from there on are younger
  std::int64_t prompt;     // SelectSpec::prompt of a choice that a prompt made; 0: a generated token did
  std::int64_t whole_at;   // position + 1 where a prompt's positions begin that read everything, see Part::first
  std::int64_t unused[2];
  // Then bytes, one per block: picked; kept by the preselection.
  std::uint8_t* picked() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  std::uint8_t* kept(std::int64_t most_blocks) { return picked() + most_blocks; }

  // Forgets what queries from position n on chose.
  void cut(std::int64_t n) {
    if (chosen_at > n) chosen_at = 0;
    if (voted_at > n) chosen_at = voted_at = 0;
    if (whole_at > n) whole_at = 0;
  }
};
inline std::size_t choice_bytes(std::int64_t most_blocks) {
  return sizeof(ChoiceState) + 2 * static_cast<std::size_t>(most_blocks);
}

// How much of the estimated mass a layer of a sequence chooses, where that follows what was measured. The level behind
// the k-th measured position (k * SelectSpec::meter), for every k that was measured: so it can be cut anywhere. All
// bytes 0: nothing was measured.
struct Levels {
  std::int64_t last;  // 1 + the newest k with a level; 0: none
  // Then bytes, by k; 0: was not measured.
  std::uint8_t* level() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  int now() { return last > 0 ? level()[last - 1] : 0; }
  void set(std::int64_t k, int to) {
    std::fill(level() + last, level() + k, std::uint8_t{0});
    level()[k] = static_cast<std::uint8_t>(to);
    last = k + 1;
  }
  // Forgets what queries from position n on measured.
  void cut(std::int64_t n, int meter) {
    while (last > 0 && ((last - 1) * meter >= n || level()[last - 1] == 0)) --last;
  }
};
inline std::size_t level_bytes(std::int64_t tokens, int meter) {
  return sizeof(Levels) + static_cast<std::size_t>(tokens / meter + 1);
}

// The values of a sequence's sealed pages in one layer and KV head, added up. It follows from the pages, so it is made
// when it is first needed, and goes on from there. All bytes 0: of no page.
struct ValueSum {
  std::int64_t pages;
  // Then doubles, one per channel.
  double* sum() { return reinterpret_cast<double*>(this + 1); }

  void cut(std::int64_t n, int channels) {
    if (pages * kPageTokens <= n) return;
    pages = 0;
    std::fill_n(sum(), channels, 0.0);
  }
};
inline std::size_t value_sum_bytes(int channels) {
  return sizeof(ValueSum) + static_cast<std::size_t>(channels) * sizeof(double);
}

// Queries of a sequence's newest prompt tokens in one layer, as the model hands them over, for SelectSpec::window: that
// of position p in row p mod W. All bytes 0: there are none.
struct QueryRing {
  std::int64_t* at;  // (W): position + 1; 0: none
  float* rows;       // (W, query_heads, d)

  // Forgets those from position n on. What they took the place of is lost: a sequence that is cut has fewer.
  void cut(std::int64_t n, int window) const {
    for (int i = 0; i < window; ++i)
      if (at[i] > n) at[i] = 0;
  }
};
inline std::size_t ring_head_bytes(int window) { return (static_cast<std::size_t>(window) * 8 + 63) / 64 * 64; }
inline std::size_t ring_bytes(int window, const LayerShape& s) {
  return ring_head_bytes(window) + static_cast<std::size_t>(window) * static_cast<std::size_t>(s.query_heads) *
                                       static_cast<std::size_t>(s.head_dim) * sizeof(float);
}

inline std::int64_t score_stride(const Layout& l) {
  return (l.most_blocks() + kPageTokens - 1) / kPageTokens * kPageTokens;
}
// Tokens whose mass is measured together; where preselection pools, parts of blocks and of what is pooled.
inline constexpr int kMassUnit = 16;
inline int mass_unit(const SelectSpec& s) { return std::min(s.block, kMassUnit); }
inline int pooled_unit(const SelectSpec& s) { return std::gcd(mass_unit(s), s.pooled()); }

// Per thread. Rows are query rows of a KV head.
struct Question {
  const std::byte** summaries;  // (pages)
  float* asked;                 // (rows, pitch)
  float* scores;                // (rows, stride)
  std::uint64_t* keys;          // (blocks)
  std::uint8_t* picked;         // (blocks)
  float* units;                 // (units of all sealed pages): shares of mass
  float* maxima;                // (rows, sealed pages)
  float* sums;                  // (rows, units)
  double* totals;               // (3, rows)
  float* spent;                 // (stride)
  RowVote* counts;              // (rows)
  OutlineFrame frame;
  OutlineRows outlined;  // queries in it
  std::int32_t* again;   // (blocks): those that are scored again
  float* fresh;          // (rows, 128): their scores
  float* fresh_votes;    // (128)
  double* values;        // (channels of a sum of values)

  static std::size_t bytes(const Layout& l) { return Question().place(nullptr, l); }
  std::size_t place(std::byte* at, const Layout& l) {
    const auto pages = static_cast<std::size_t>(l.memory.pages);
    const auto rows = static_cast<std::size_t>(l.few_rows());
    const auto blocks = static_cast<std::size_t>(l.most_blocks());
    const std::size_t per_page = static_cast<std::size_t>(kPageTokens / pooled_unit(l.select));
    std::size_t pitch = 0;
    for (const LayerLayout& layer : l.layers)
      if (layer.asked >= 0)
        pitch = std::max(pitch, static_cast<std::size_t>(summary_pitch(*l.select.selector, layer.shape.head_dim)));
    std::size_t size = 0;
    const auto take = [&]<class T>(T** to, std::size_t count) {
      *to = at ? reinterpret_cast<T*>(at + size) : nullptr;
      size += (count * sizeof(T) + 63) / 64 * 64;
    };
    take(&summaries, pages);
    take(&asked, rows * pitch);
    take(&scores, rows * static_cast<std::size_t>(score_stride(l)));
    take(&keys, blocks);
    take(&picked, blocks);
    take(&units, pages * per_page);
    take(&maxima, rows * pages);
    take(&sums, rows * pages * per_page);
    take(&totals, 3 * rows);
    take(&spent, static_cast<std::size_t>(score_stride(l)));
    take(&counts, rows);
    take(&frame.center, pitch);
    take(&frame.reach, pitch);
    take(&outlined.codes, rows * pitch);
    take(&outlined.factor, rows);
    take(&outlined.base, rows);
    take(&outlined.start, rows);
    take(&again, blocks);
    take(&fresh, rows * kPageTokens);
    take(&fresh_votes, kPageTokens);
    take(&values, l.select.tail ? static_cast<std::size_t>(l.widest_sum()) : 0);
    return size;
  }
};

// Of all heads of a step's slices; `at` counts heads.
struct Answers {
  PageRun* runs;
  float* votes;
  int* counts;     // of runs
  double* masses;  // share of the mass that the runs hold, with what is always read; below 0: not measured
  double* bests;   // of the best choice of as many blocks
  // With SelectSpec::tail, per query row of a head: the blocks' estimated masses are 2^exponents * sums, first of all
  // of [initial, local), then of those that are not read. Per head: the mean of the values that are not read.
  float* exponents;  // (rows)
  float* sums;       // (rows)
  float* means;      // (channels)
  std::size_t room = 0;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t channels = 0;

  PageRun* runs_at(std::int64_t at) const { return runs + at * static_cast<std::int64_t>(room); }
  float* votes_at(std::int64_t at) const { return votes + at * stride; }
  float* exponents_at(std::int64_t at) const { return exponents + at * rows; }
  float* sums_at(std::int64_t at) const { return sums + at * rows; }
  float* means_at(std::int64_t at) const { return means + at * channels; }
};
inline std::size_t run_room(const Layout& l) {
  return static_cast<std::size_t>(l.memory.pages) * static_cast<std::size_t>(runs_per_page(l.select.block));
}
// Bytes of one head of one slice.
inline std::size_t answer_room(const Layout& l) {
  const std::size_t tail = l.select.tail ? static_cast<std::size_t>(2 * l.few_rows() + l.widest_sum()) : 0;
  return run_room(l) * sizeof(PageRun) + (static_cast<std::size_t>(score_stride(l)) + tail) * sizeof(float) +
         sizeof(int) + 2 * sizeof(double);
}
inline Answers place_answers(std::byte* at, const Layout& l, std::size_t heads) {
  Answers a{};
  a.room = run_room(l);
  a.stride = score_stride(l);
  a.masses = reinterpret_cast<double*>(at);
  a.bests = a.masses + heads;
  at += 2 * heads * sizeof(double);
  a.runs = reinterpret_cast<PageRun*>(at);
  at += heads * a.room * sizeof(PageRun);
  a.votes = reinterpret_cast<float*>(at);
  at += heads * static_cast<std::size_t>(a.stride) * sizeof(float);
  a.rows = l.few_rows();
  a.channels = l.widest_sum();
  if (l.select.tail) {
    const auto take = [&](float** to, std::int64_t floats) {
      *to = reinterpret_cast<float*>(at);
      at += heads * static_cast<std::size_t>(floats) * sizeof(float);
    };
    take(&a.exponents, a.rows);
    take(&a.sums, a.rows);
    take(&a.means, a.channels);
  }
  a.counts = reinterpret_cast<int*>(at);
  return a;
}

// Where the heads of a step choose, and what they chose.
class SelectScratch {
 public:
  SelectScratch(const Layout& layout, int threads, int max_slices);
  std::size_t bytes() const { return answers_.size() + questions_.size(); }

  Question question(int worker) const {
    Question q{};
    q.place(questions_.data() + static_cast<std::size_t>(worker) * layout_.question_bytes(), layout_);
    return q;
  }
  const Answers& answers() const { return to_; }
  // Of head `at`: Part::counters + head.
  std::span<const PageRun> runs(std::int64_t at) const {
    return {to_.runs_at(at), static_cast<std::size_t>(to_.counts[at])};
  }

 private:
  const Layout& layout_;
  tensor::Buffer answers_;    // of selectors
  tensor::Buffer questions_;  // to selectors, per thread
  Answers to_{};
};

inline SelectScratch::SelectScratch(const Layout& l, int threads, int max_slices)
    : layout_(l),
      answers_(tensor::Tag::kScratch, l.answer_bytes(max_slices)),
      questions_(tensor::Tag::kScratch, static_cast<std::size_t>(threads) * l.question_bytes()) {
  if (answers_.size() > 0)
    to_ = place_answers(answers_.data(), l,
                        static_cast<std::size_t>(max_slices) * static_cast<std::size_t>(l.most_heads()));
}

}  // namespace kvasir::kv
