// Contract of an entry in kv/selectors: which sealed pages a generated token attends to.
//
// A selector is asked once per step, layer and KV head, after the step's pages were sealed. It sees the query rows and
// what it wrote down about every sealed page when that was sealed (its summary), and answers with pages. Sinks, raw
// tokens and layers with a window are attended whole and not asked about; so are prompts. Attention over the chosen
// pages is split over threads by their place in the list, so results do not depend on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/registry.hpp"

namespace kvasir::kv {

// One question.
struct Selection {
  int layer;
  int kv_head;
  const float* q;  // (rows, d), scaled by what scores are scaled by and by log2(e)
  int rows;        // query heads of the KV head, times the tokens of the step (few)
  int d;
  std::int64_t position;              // of the last query
  std::int32_t pages;                 // sealed pages are [0, pages), pages >= 1
  std::int64_t budget;                // tokens that may be chosen, as the user said; 0: the selector's own default
  const std::byte* const* summaries;  // (pages), each of summary_bytes; null when there are none
  std::byte* scratch;                 // scratch_bytes, aligned to 64; null when there is none
  std::byte* state;                   // of this sequence, layer and KV head; null when there is none
};

struct Selector {
  const char* summary;
  bool dense = false;  // every page, always: never asked, and attention has the bits of no selection

  // Bytes kept beside every sealed page, per layer and KV head. They go with the page into stores. Null: none.
  std::size_t (*summary_bytes)(int d) = nullptr;
  // keys: (d, 128), channel-major; tokens [skip, 128) are the page's, the others are sinks and may hold anything.
  void (*summarise)(int d, const float* keys, int skip, std::byte* to) = nullptr;

  // Bytes that `select` may use while it runs, in a cache of up to `pages` sealed pages. Null: none.
  std::size_t (*scratch_bytes)(std::int64_t pages) = nullptr;

  // Bytes that live with a sequence, per layer and KV head, in a cache of up to `pages` sealed pages: zero in a new
  // sequence and after it was cut or restored, copied by a fork. Null: none.
  std::size_t (*state_bytes)(std::int64_t pages) = nullptr;

  // Writes the chosen pages in increasing order and returns how many, at most what.pages.
  int (*select)(const Selection& what, std::int32_t* pages) = nullptr;
};

std::span<const Entry<Selector>> selectors();

}  // namespace kvasir::kv
