// Memory that choosing blocks needs: a thread's while it chooses, and what the heads of a step's slices answered. Sizes
// depend on the cache's layout and selector alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "select/choice.hpp"
#include "select/memory.hpp"
#include "select/outline.hpp"
#include "select/summaries.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::select {

inline std::int64_t score_stride(const SelectLayout& l) {
  return (l.most_blocks() + kv::kPageTokens - 1) / kv::kPageTokens * kv::kPageTokens;
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

  static std::size_t bytes(const SelectLayout& l) { return Question().place(nullptr, l); }
  std::size_t place(std::byte* at, const SelectLayout& l) {
    const auto pages = static_cast<std::size_t>(l.cache.memory.pages);
    const auto rows = static_cast<std::size_t>(l.cache.few_rows());
    const auto blocks = static_cast<std::size_t>(l.most_blocks());
    const std::size_t per_page = static_cast<std::size_t>(kv::kPageTokens / pooled_unit(l.select));
    std::size_t pitch = 0;
    for (const kv::LayerLayout& layer : l.cache.layers)
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
    take(&fresh, rows * kv::kPageTokens);
    take(&fresh_votes, kv::kPageTokens);
    take(&values, l.select.unread ? static_cast<std::size_t>(l.cache.widest_sum()) : 0);
    return size;
  }
};

// Of all heads of a step's slices; `at` counts heads.
struct Answers {
  kv::PageRun* runs;
  float* votes;
  int* counts;     // of runs
  double* masses;  // share of the mass that the runs hold, with what is always read; below 0: not measured
  double* bests;   // of the best choice of as many blocks
  // With SelectSpec::unread, per query row of a head: the blocks' estimated masses are 2^exponents * sums, first of all
  // of [initial, local), then of those that are not read. Per head: the mean of the values that are not read.
  float* exponents;  // (rows)
  float* sums;       // (rows)
  float* means;      // (channels)
  std::size_t room = 0;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t channels = 0;

  kv::PageRun* runs_at(std::int64_t at) const { return runs + at * static_cast<std::int64_t>(room); }
  float* votes_at(std::int64_t at) const { return votes + at * stride; }
  float* exponents_at(std::int64_t at) const { return exponents + at * rows; }
  float* sums_at(std::int64_t at) const { return sums + at * rows; }
  float* means_at(std::int64_t at) const { return means + at * channels; }
};
inline std::size_t run_room(const SelectLayout& l) {
  return static_cast<std::size_t>(l.cache.memory.pages) * static_cast<std::size_t>(runs_per_page(l.select.block));
}
// Bytes of one head of one slice.
inline std::size_t answer_room(const SelectLayout& l) {
  const std::size_t unread =
      l.select.unread ? static_cast<std::size_t>(2 * l.cache.few_rows() + l.cache.widest_sum()) : 0;
  return run_room(l) * sizeof(kv::PageRun) + (static_cast<std::size_t>(score_stride(l)) + unread) * sizeof(float) +
         sizeof(int) + 2 * sizeof(double);
}
inline Answers place_answers(std::byte* at, const SelectLayout& l, std::size_t heads) {
  Answers a{};
  a.room = run_room(l);
  a.stride = score_stride(l);
  a.masses = reinterpret_cast<double*>(at);
  a.bests = a.masses + heads;
  at += 2 * heads * sizeof(double);
  a.runs = reinterpret_cast<kv::PageRun*>(at);
  at += heads * a.room * sizeof(kv::PageRun);
  a.votes = reinterpret_cast<float*>(at);
  at += heads * static_cast<std::size_t>(a.stride) * sizeof(float);
  a.rows = l.cache.few_rows();
  a.channels = l.cache.widest_sum();
  if (l.select.unread) {
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
  SelectScratch(const SelectLayout& layout, int threads, int max_slices);
  std::size_t bytes() const { return answers_.size() + questions_.size(); }

  Question question(int worker) const {
    Question q{};
    q.place(questions_.data() + static_cast<std::size_t>(worker) * layout_.question_bytes(), layout_);
    return q;
  }
  const Answers& answers() const { return to_; }
  // Of head `at`: Part::counters + head.
  std::span<const kv::PageRun> runs(std::int64_t at) const {
    return {to_.runs_at(at), static_cast<std::size_t>(to_.counts[at])};
  }

 private:
  const SelectLayout& layout_;
  tensor::Buffer answers_;    // of selectors
  tensor::Buffer questions_;  // to selectors, per thread
  Answers to_{};
};

inline SelectScratch::SelectScratch(const SelectLayout& l, int threads, int max_slices)
    : layout_(l),
      answers_(tensor::Tag::kScratch, l.answer_bytes(max_slices)),
      questions_(tensor::Tag::kScratch, static_cast<std::size_t>(threads) * l.question_bytes()) {
  if (answers_.size() > 0)
    to_ = place_answers(answers_.data(), l,
                        static_cast<std::size_t>(max_slices) * static_cast<std::size_t>(l.cache.most_heads()));
}

}  // namespace kvasir::select
