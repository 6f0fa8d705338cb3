// The bytes of a cache and the sequences that own them. Address arithmetic only; attend.cpp computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.hpp"
#include "kv/layout.hpp"
#include "kv/pool.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

class Sequence {
 public:
  int index = 0;  // of its raw blocks and sinks
  bool used = false;
  std::int64_t length = 0;          // tokens of committed steps
  std::vector<std::int32_t> pages;  // chunk slot of every sealed page, during a step also of those it will seal
};

// Rows of one head in a batch: row i at data + i * stride.
struct TokenRows {
  const float* data;
  std::ptrdiff_t stride;
};

// A block of K and one of V.
struct Blocks {
  std::byte* k;
  std::byte* v;
};

struct Store {
  explicit Store(Layout layout_in, int max_sequences);

  // An extent is laid out as a chunk is, with the blocks of all its pages, in a row, in the place of each block.
  Blocks sealed(int layer, int head, std::int32_t slot) const {
    const BlockLayout& b = layer_at(layer).sealed;
    const auto first = static_cast<std::int64_t>(slot) / layout.extent_pages * layout.extent_pages;
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(layout.extent_pages, pool.total() - first));
    const auto i = static_cast<std::size_t>(slot - first);
    std::byte* const extent = chunks.data() + static_cast<std::size_t>(first) * layout.memory.chunk_bytes;
    return {extent + n * b.k(head) + i * b.k_bytes, extent + n * b.v(head) + i * b.v_bytes};
  }
  // The raw block of page `page`; blocks of a sequence form a ring.
  Blocks raw(int layer, int head, const Sequence& s, std::int64_t page) const {
    return at(raw_block(s, page), layer_at(layer).raw, head);
  }
  Blocks sinks(int layer, int head, const Sequence& s) const { return at(sink_block(s), layer_at(layer).sinks, head); }
  // What the codecs of sealed pages get to see of a head.
  Head head_k(int layer, int head) const {
    const LayerLayout& l = layer_at(layer);
    return {layout.shape.head_dim, l.k_params, l.state.k_bytes ? states.data() + l.state.k(head) : nullptr};
  }
  Head head_v(int layer, int head) const {
    const LayerLayout& l = layer_at(layer);
    return {layout.shape.head_dim_v, l.v_params, l.state.v_bytes ? states.data() + l.state.v(head) : nullptr};
  }
  // And those of raw blocks and sinks.
  Head raw_head_k() const { return {layout.shape.head_dim, {}, nullptr}; }
  Head raw_head_v() const { return {layout.shape.head_dim_v, {}, nullptr}; }
  std::byte* raw_block(const Sequence& s, std::int64_t page) const {
    const auto n = static_cast<std::size_t>(layout.raw_pages);
    return raws.data() +
           (static_cast<std::size_t>(s.index) * n + static_cast<std::size_t>(page) % n) * layout.raw_block_bytes;
  }
  std::byte* sink_block(const Sequence& s) const {
    return sink_buffer.data() + static_cast<std::size_t>(s.index) * layout.sink_block_bytes;
  }
  const LayerLayout& layer_at(int layer) const { return layout.layers[static_cast<std::size_t>(layer)]; }

  // Raw page -> its sealed slot, for one layer, head and side; scratch: seal_floats of the head size.
  void seal(int layer, int head, Side side, const Sequence& s, std::int64_t page, float* scratch) const;
  // And back (lossless codecs only), both sides.
  void unseal_raw(int layer, int head, const Sequence& s, std::int64_t page) const;
  // Writes n rows as positions [position, position + n): sinks and at most one page.
  void append(int layer, int head, Side side, const Sequence& s, std::int64_t position, int n, TokenRows rows) const;

  // Gives a sequence slots until it has `pages`. REQUIRES: as many are free.
  void grow(Sequence* s, std::int64_t pages) {
    while (static_cast<std::int64_t>(s->pages.size()) < pages)
      s->pages.push_back(pool.take(s->pages.empty() ? -1 : s->pages.back()));
  }

  // First row of page `page` that is not a sink.
  int first_row(std::int64_t page) const { return page == 0 ? layout.sinks : 0; }

  Layout layout;
  PagePool pool;
  tensor::Buffer chunks;
  tensor::Buffer raws;
  tensor::Buffer sink_buffer;
  tensor::Buffer states;
  std::vector<std::unique_ptr<Sequence>> sequences;  // all that can exist; the handles never move

 private:
  static Blocks at(std::byte* base, const BlockLayout& b, int head) { return {base + b.k(head), base + b.v(head)}; }
};

std::uint64_t digest(const Store& store, const Sequence& s);

// f(pointer, bytes) for every block of a sealed page.
template <class F>
void visit_page(const Store& store, const Sequence& s, std::int64_t page, F&& f) {
  KVASIR_CHECK(page >= 0 && page < static_cast<std::int64_t>(s.pages.size()));
  for (int i = 0; i < store.layout.shape.layers; ++i)
    for (int head = 0; head < store.layout.shape.kv_heads; ++head) {
      const Blocks b = store.sealed(i, head, s.pages[static_cast<std::size_t>(page)]);
      f(b.k, store.layer_at(i).sealed.k_bytes);
      f(b.v, store.layer_at(i).sealed.v_bytes);
    }
}

// f(pointer, bytes) for every run of bytes that rows [begin, end) of a raw block or sink block consist of. K is
// T[d][capacity], V is T[capacity][d].
template <class F>
void visit_rows(const Blocks& b, const BlockLayout& size, int capacity, const CacheShape& shape, int begin, int end,
                F&& f) {
  if (end <= begin) return;
  const std::size_t ek = size.k_bytes / static_cast<std::size_t>(capacity * shape.head_dim);
  const std::size_t ev = size.v_bytes / static_cast<std::size_t>(capacity * shape.head_dim_v);
  const auto first = static_cast<std::size_t>(begin);
  const auto rows = static_cast<std::size_t>(end - begin);
  const auto dv = static_cast<std::size_t>(shape.head_dim_v);
  if (begin == 0 && end == capacity) {
    f(b.k, size.k_bytes);
  } else {
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape.head_dim); ++c)
      f(b.k + (c * static_cast<std::size_t>(capacity) + first) * ek, rows * ek);
  }
  f(b.v + first * dv * ev, rows * dv * ev);
}

// The same for everything of a sequence that is not sealed: its sinks, then its raw pages, head by head.
template <class F>
void visit_raw(const Store& store, const Sequence& s, F&& f) {
  const Layout& l = store.layout;
  const auto below = [](std::int64_t most, std::int64_t n) { return static_cast<int>(n < most ? n : most); };
  for (int i = 0; i < l.shape.layers; ++i) {
    const LayerLayout& layer = store.layer_at(i);
    for (int head = 0; head < l.shape.kv_heads; ++head) {
      if (l.sinks > 0)
        visit_rows(store.sinks(i, head, s), layer.sinks, l.sink_capacity, l.shape, 0, below(l.sinks, s.length), f);
      for (std::int64_t page = l.sealed_at(s.length - 1); page * kPageTokens < s.length; ++page)
        visit_rows(store.raw(i, head, s, page), layer.raw, kPageTokens, l.shape, store.first_row(page),
                   below(kPageTokens, s.length - page * kPageTokens), f);
    }
  }
}

}  // namespace kvasir::kv
