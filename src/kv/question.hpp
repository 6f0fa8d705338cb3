// Memory that choosing blocks needs: a thread's while it chooses, what the heads of a step's slices answered, and what
// of a choice is kept from step to step. Sizes depend on the cache's layout alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kv/choice.hpp"
#include "kv/layout.hpp"
#include "kv/summaries.hpp"

namespace kvasir::kv {

// Of a layer and head of a sequence. All bytes 0: nothing was chosen.
struct ChoiceState {
  std::int64_t chosen_at;  // position + 1 of the query that chose; 0: none
  std::int64_t local;      // BlockCut::local then
  std::int64_t voted_at;   // position + 1 of the query that preselected; 0: none
  std::int64_t voted_to;   // blocks from there on are younger
  // Then bytes, one per block: picked; kept by the preselection.
  std::uint8_t* picked() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  std::uint8_t* kept(std::int64_t most_blocks) { return picked() + most_blocks; }

  // Forgets what queries from position n on chose.
  void cut(std::int64_t n) {
    if (chosen_at > n) chosen_at = 0;
    if (voted_at > n) chosen_at = voted_at = 0;
  }
};
inline std::size_t choice_bytes(std::int64_t most_blocks) {
  return sizeof(ChoiceState) + 2 * static_cast<std::size_t>(most_blocks);
}

inline std::int64_t score_stride(const Layout& l) {
  return (l.most_blocks() + kPageTokens - 1) / kPageTokens * kPageTokens;
}
// Tokens whose mass is measured together: a quarter of a block, as preselection pools, and at most 16.
inline int mass_unit(const SelectSpec& s) { return s.block / 4 < 16 ? s.block / 4 : 16; }

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

  static std::size_t bytes(const Layout& l) { return Question().place(nullptr, l); }
  std::size_t place(std::byte* at, const Layout& l) {
    const auto pages = static_cast<std::size_t>(l.memory.pages);
    const auto rows = static_cast<std::size_t>(l.few_rows());
    const auto blocks = static_cast<std::size_t>(l.most_blocks());
    const std::size_t per_page = static_cast<std::size_t>(kPageTokens / mass_unit(l.select));
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
  std::size_t room = 0;
  std::int64_t stride = 0;

  PageRun* runs_at(std::int64_t at) const { return runs + at * static_cast<std::int64_t>(room); }
  float* votes_at(std::int64_t at) const { return votes + at * stride; }
};
inline std::size_t run_room(const Layout& l) {
  return static_cast<std::size_t>(l.memory.pages) * static_cast<std::size_t>(runs_per_page(l.select.block));
}
// Bytes of one head of one slice.
inline std::size_t answer_room(const Layout& l) {
  return run_room(l) * sizeof(PageRun) + static_cast<std::size_t>(score_stride(l)) * sizeof(float) + sizeof(int) +
         2 * sizeof(double);
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
  a.counts = reinterpret_cast<int*>(at);
  return a;
}

}  // namespace kvasir::kv
