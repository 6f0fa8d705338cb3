// How keys and values enter the cache, and leave the window: rows are appended raw; a page that leaves the window is
// sealed, and the selection is told.
#pragma once

#include "kv/selection.hpp"
#include "kv/step.hpp"

namespace kvasir::kv {

class Sealer {
 public:
  Sealer(const Arena& arena, const Selection& selection) : arena_(arena), selection_(selection) {}

  // A part's tokens in one head. A part that begins where a page leaves the raw ones seals it; the raw block is free
  // for the next page then.
  void enter(const LayerStep& step, const Part& part, int head, Side side, int worker) const;
  // The same of a part that seals nothing.
  void append(const LayerStep& step, const Part& part, int head, Side side) const;
  // Sealed page -> its raw block (lossless codecs only), both sides.
  static void unseal(const Arena& arena, int layer, int head, const Sequence& s, std::int64_t page);

 private:
  // Raw page -> its sealed block, for one layer, head and side.
  // scratch: Layout::worker_floats(). q: queries of the token whose coming seals the page, (group, head_dim), scaled.
  void seal(int layer, int head, Side side, const Sequence& s, std::int64_t page, const float* q, float* scratch) const;
  // Writes n rows as positions [position, position + n): sinks and at most one page.
  void append(int layer, int head, Side side, const Sequence& s, std::int64_t position, int n, TokenRows rows) const;

  const Arena& arena_;
  const Selection& selection_;
};

}  // namespace kvasir::kv
