// The bytes of a live cache and the sequences that own them. Address arithmetic only; attend.cpp computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "kv/borrow.hpp"
#include "kv/layout.hpp"
#include "kv/pool.hpp"
#include "kv/sealed_pages.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

inline constexpr std::int64_t kAllExact = std::numeric_limits<std::int64_t>::max();

class Sequence {
 public:
  int index = 0;  // of its raw pages, rings and sinks
  bool used = false;
  std::int64_t length = 0;                       // own tokens of committed steps: all of them, unless it borrows
  std::int64_t exact = kAllExact;                // tokens from here on were computed with a selection of pages
  std::shared_ptr<const PageSelector> selector;  // the cache's own, unless the request has another one
  bool live = true;                    // the states of recurrent layers are there; else they follow from what is kept
  std::int64_t marked = -1;            // tokens that the states before the last drafted step are of; -1: none are kept
  std::vector<std::int32_t> pages;     // pool slot of every sealed page, during a step also of those it will seal
  std::unique_ptr<Borrowed> borrowed;  // null: nothing is

  bool selects() const { return selector && !selector->dense(); }
  // Where own token i stands in the text.
  std::int64_t place(std::int64_t i) const { return borrowed ? borrowed->places().of(i) : i; }
  // Own tokens among the first n of the text.
  std::int64_t own_of(std::int64_t n) const { return borrowed && n > 0 ? n - (text_length() - length) : n; }
  // Tokens of the text so far.
  std::int64_t text_length() const { return borrowed && length > 0 ? place(length - 1) + 1 : length; }
};

// Rows of one head in a batch: row i at data + i * stride.
struct TokenRows {
  const float* data;
  std::ptrdiff_t stride;
};

struct Arena {
  // key_factors, key_metrics, disk, device: as CacheOptions has them, and as it had them when the layout was made.
  Arena(Layout layout_in, int max_sequences, std::span<const std::vector<float>> key_factors = {},
        std::span<const std::vector<float>> key_metrics = {}, const std::string& disk = {},
        std::shared_ptr<PageDevice> device = nullptr);

  // A sealed page of a layer that owns its pages. REQUIRES: the sequence has it, and it is not on a disk (PinnedPages).
  Blocks sealed(int layer, int head, const Sequence& s, std::int64_t page) const {
    const LayerLayout& l = layer_at(layer);
    if (!l.local()) return pages.at(l, head, s.pages[static_cast<std::size_t>(page)]);
    std::byte* const rings = locals.data() + static_cast<std::size_t>(s.index) * layout.local_bytes;
    return in_ring(rings, l.sealed, head, l.ring, page);
  }
  // The raw block of page `page`; those of a sequence form a ring.
  Blocks raw(int layer, int head, const Sequence& s, std::int64_t page) const {
    const LayerLayout& l = layer_at(layer);
    return in_ring(raws.data() + static_cast<std::size_t>(s.index) * layout.raw_bytes, l.raw, head, l.raw_ring, page);
  }
  Blocks sinks(int layer, int head, const Sequence& s) const {
    return in_ring(sink_buffer.data() + static_cast<std::size_t>(s.index) * layout.sink_bytes, layer_at(layer).sinks,
                   head, 1, 0);
  }
  // The selector's summary of a pool page: those of one head lie in the order of their slots.
  std::byte* summary(const LayerLayout& l, int head, std::int32_t slot) const {
    const auto total = static_cast<std::size_t>(pool.total());
    return summaries.data() + total * (l.summary_offset + static_cast<std::size_t>(head) * l.summary_bytes) +
           static_cast<std::size_t>(slot) * l.summary_bytes;
  }
  // Of a recurrent layer, see RecurrentLayout.
  float* recurrent(const Sequence& s, std::size_t at) const {
    return recurrents.as<float>() + static_cast<std::size_t>(s.index) * layout.recurrent_floats + at;
  }

  // What the codecs of sealed pages get to see of a head.
  Head head_k(int layer, int head) const {
    const LayerLayout& l = layer_at(layer);
    const std::byte* const state = l.state.k_bytes ? states.data() + l.state.k(head) : nullptr;
    return {l.shape.head_dim, l.k_params, state,
            l.feedback_offset ? reinterpret_cast<const float*>(state + l.feedback_offset) : nullptr};
  }
  Head head_v(int layer, int head) const {
    const LayerLayout& l = layer_at(layer);
    return {l.shape.head_dim_v, l.v_params, l.state.v_bytes ? states.data() + l.state.v(head) : nullptr};
  }
  const LayerLayout& layer_at(int layer) const { return layout.layers[static_cast<std::size_t>(layer)]; }
  bool owns(int layer) const { return layer_at(layer).owner == layer; }

  // Everything that a sequence has besides its pages of the pool, into one of the same length.
  void copy_own(const Sequence& from, const Sequence& to) const;
  // Gives a sequence slots until it has `count`. REQUIRES: as many are free.
  void grow(Sequence* s, std::int64_t count) {
    while (static_cast<std::int64_t>(s->pages.size()) < count)
      s->pages.push_back(pool.take(s->pages.empty() ? -1 : s->pages.back()));
  }

  // Gives back one reference to a slot.
  void drop(std::int32_t slot) {
    pool.drop(slot);
    if (pool.references(slot) == 0) pages.on_free(slot);
  }

  // First row of page `page` that is not a sink.
  int first_row(std::int64_t page) const { return page == 0 ? layout.sinks : 0; }
  // First page that a layer has raw, and the first it has at all, of a sequence of n tokens.
  std::int64_t first_raw(const LayerLayout& l, std::int64_t n) const {
    return std::max(layout.sealed_at(n - 1), l.first_kept(n));
  }

  Layout layout;
  PagePool pool;
  SealedPages pages;
  tensor::Buffer summaries;
  tensor::Buffer locals;
  tensor::Buffer raws;
  tensor::Buffer sink_buffer;
  tensor::Buffer recurrents;
  tensor::Buffer states;                             // of codecs
  std::vector<std::unique_ptr<Sequence>> sequences;  // all that can exist; the handles never move

 private:
  std::vector<DeviceLayer> device_layers() const;
  static Blocks in_ring(std::byte* base, const BlockLayout& b, int head, int ring, std::int64_t page) {
    const auto n = static_cast<std::size_t>(ring);
    const std::size_t i = static_cast<std::size_t>(page) % n;
    std::byte* const k = base + b.offset + static_cast<std::size_t>(head) * n * (b.k_bytes + b.v_bytes);
    return {k + i * b.k_bytes, k + n * b.k_bytes + i * b.v_bytes};
  }
};

// Pages of the pool of one layer that owns them and one KV head, in memory as long as this lives. At most kGroupPages.
class PinnedPages {
 public:
  PinnedPages(const Arena& arena, int layer, int head) : arena_(arena), layer_(layer), head_(head) {}
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;
  ~PinnedPages() { release(); }

  // In place of those it had.
  void load(std::span<const std::int32_t> slots) {
    const LayerLayout& l = arena_.layer_at(layer_);
    if (!arena_.pages.on_disk()) {
      for (std::size_t i = 0; i < slots.size(); ++i) blocks_[i] = arena_.pages.at(l, head_, slots[i]);
      return;
    }
    release();
    count_ = slots.size();
    std::byte* units[kGroupPages];
    arena_.pages.hot().pin(layer_, head_, slots, frames_, units);
    for (std::size_t i = 0; i < count_; ++i) blocks_[i] = {units[i], units[i] + l.sealed.k_bytes};
  }
  const Blocks& operator[](std::size_t i) const { return blocks_[i]; }

 private:
  void release() {
    if (count_ > 0) arena_.pages.hot().release(layer_, {frames_, count_});
  }

  const Arena& arena_;
  int layer_;
  int head_;
  std::size_t count_ = 0;  // of frames
  int frames_[kGroupPages];
  Blocks blocks_[kGroupPages];
};

std::uint64_t digest(const Arena& arena, const Sequence& s);

// f(layer, head) for every head of every layer that has blocks of its own.
template <class F>
void visit_heads(const Layout& l, F&& f) {
  for (int i = 0; i < l.shape.count(); ++i)
    if (l.layers[static_cast<std::size_t>(i)].owner == i)
      for (int head = 0; head < l.shape.at(i).kv_heads; ++head) f(i, head);
}

// f(pointer, bytes) for every block of a page of the pool, as SealedPages::whole has them, and its summaries.
template <class F>
void visit_slot(const Arena& arena, std::int32_t slot, F&& f) {
  visit_heads(arena.layout, [&](int i, int head) {
    const LayerLayout& l = arena.layer_at(i);
    if (l.local()) return;
    const Blocks b = arena.pages.whole(l, head, slot);
    f(b.k, l.sealed.k_bytes);
    if (l.sealed.v_bytes > 0) f(b.v, l.sealed.v_bytes);
    if (l.summary_bytes > 0) f(arena.summary(l, head, slot), l.summary_bytes);
  });
}

template <class F>
void visit_page(const Arena& arena, const Sequence& s, std::int64_t page, F&& f) {
  KVASIR_CHECK(page >= 0 && page < static_cast<std::int64_t>(s.pages.size()));
  visit_slot(arena, s.pages[static_cast<std::size_t>(page)], f);
}

// f(pointer, bytes) for every run of bytes that rows [begin, end) of a raw block or sink block consist of. K is
// T[d][capacity], V is T[capacity][d].
template <class F>
void visit_rows(const Blocks& b, const BlockLayout& size, int capacity, const LayerShape& shape, int begin, int end,
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
  if (ev > 0) f(b.v + first * dv * ev, rows * dv * ev);
}

// The same for what is kept of recurrent layers: the states at the boundary, unless that is the beginning, and the raw
// rows behind it.
template <class F>
void visit_states(const Arena& arena, const Sequence& s, F&& f) {
  const std::int64_t boundary = boundary_of(s.length);
  for (const LayerLayout& layer : arena.layout.layers) {
    const RecurrentShape& shape = layer.shape.recurrent;
    if (!shape) continue;
    const auto bytes = [&](std::size_t at, std::size_t floats) {
      if (floats > 0) f(reinterpret_cast<std::byte*>(arena.recurrent(s, at)), floats * sizeof(float));
    };
    if (boundary > 0) {
      bytes(layer.recurrent.columns,
            static_cast<std::size_t>(shape.reach()) * static_cast<std::size_t>(shape.channels));
      bytes(layer.recurrent.boundary, layer.recurrent.boundary_floats);
    }
    bytes(layer.recurrent.rows, static_cast<std::size_t>(s.length - boundary) * static_cast<std::size_t>(shape.row()));
  }
}

// The same for everything of a sequence that is not in the pool, head by head: its sinks, its raw pages, and the sealed
// pages of layers with a window; then what recurrent layers keep.
template <class F>
void visit_tail(const Arena& arena, const Sequence& s, F&& f) {
  const Layout& l = arena.layout;
  const auto below = [](std::int64_t most, std::int64_t n) { return static_cast<int>(n < most ? n : most); };
  const std::int64_t sealed = l.sealed_at(s.length - 1);
  visit_heads(l, [&](int i, int head) {
    const LayerLayout& layer = arena.layer_at(i);
    if (l.sinks > 0)
      visit_rows(arena.sinks(i, head, s), layer.sinks, l.sink_capacity, layer.shape, 0, below(l.sinks, s.length), f);
    for (std::int64_t page = arena.first_raw(layer, s.length); page * kPageTokens < s.length; ++page) {
      // Of the beginning of a longer sequence: lossless codecs seal a block as it is (Rules::pages_suffice).
      const bool raw = page >= static_cast<std::int64_t>(s.pages.size());
      visit_rows(raw ? arena.raw(i, head, s, page) : arena.sealed(i, head, s, page), layer.raw, kPageTokens,
                 layer.shape, arena.first_row(page), below(kPageTokens, s.length - page * kPageTokens), f);
    }
    if (!layer.local()) return;
    for (std::int64_t page = layer.first_kept(s.length); page < sealed; ++page) {
      const Blocks b = arena.sealed(i, head, s, page);
      f(b.k, layer.sealed.k_bytes);
      if (layer.sealed.v_bytes > 0) f(b.v, layer.sealed.v_bytes);
    }
  });
  visit_states(arena, s, f);
}

}  // namespace kvasir::kv
