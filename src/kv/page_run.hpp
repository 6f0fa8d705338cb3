// What a selector answers: which blocks of a context may be left out, and which runs of pages are read.
#pragma once

#include <bit>
#include <cstdint>

namespace kvasir::kv {

// The blocks of a context of n tokens: [0, initial) and [local, blocks) are read, with the tokens behind the last whole
// block; of [initial, local) the `chosen` best are.
struct BlockCut {
  std::int64_t blocks = 0;  // whole ones, raw or sealed
  std::int64_t sealed = 0;  // of them
  std::int64_t initial = 0;
  std::int64_t local = 0;
  std::int64_t chosen = 0;
  bool dense = true;  // all are read

  // Tokens that are read.
  std::int64_t tokens(std::int64_t n, int block) const { return dense ? n : n - (local - initial - chosen) * block; }
};

// A part of a page: tokens [begin, end) without those that are hidden, bit t % 64 of word t / 64.
struct PageRun {
  std::int32_t page;
  std::uint8_t begin;
  std::uint8_t end;
  bool hides = false;
  std::uint64_t hidden[2] = {};

  bool is_hidden(int t) const { return hidden[t / 64] >> (t % 64) & 1; }
  int tokens() const { return end - begin - std::popcount(hidden[0]) - std::popcount(hidden[1]); }
};

}  // namespace kvasir::kv
