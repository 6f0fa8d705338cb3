// Contract of an entry in kv/selectors: which sealed pages a query attends to.
#pragma once

#include <cstdint>
#include <span>

#include "base/registry.hpp"

namespace kvasir::kv {

// One question: queries of one KV head, and the sealed pages [first, last) of their sequence.
struct Selection {
  int layer;
  int kv_head;
  const float* q;  // (rows, d), scaled
  int rows;
  int d;
  std::int32_t first;
  std::int32_t last;
};

struct Selector {
  const char* summary;
  // Writes the chosen pages in increasing order, at most last - first of them, and returns how many. Sinks and raw
  // tokens are attended always. The choice within [first, last) must not depend on how the caller splits the sequence
  // into ranges (ranges are aligned to 8 pages).
  int (*select)(const Selection& what, std::int32_t* pages);
};

std::span<const Entry<Selector>> selectors();

}  // namespace kvasir::kv
