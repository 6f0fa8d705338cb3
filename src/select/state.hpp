// What of a choice is kept from step to step, as bytes that begin as zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kv/options.hpp"
#include "kv/page.hpp"

namespace kvasir::select {

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
    if (pages * kv::kPageTokens <= n) return;
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
inline std::size_t ring_bytes(int window, const kv::LayerShape& s) {
  return ring_head_bytes(window) + static_cast<std::size_t>(window) * static_cast<std::size_t>(s.query_heads) *
                                       static_cast<std::size_t>(s.head_dim) * sizeof(float);
}

}  // namespace kvasir::select
