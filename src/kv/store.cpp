#include "kv/store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvasir::kv {

Store::Store(Layout layout_in, int max_sequences)
    : layout(std::move(layout_in)),
      pool(layout.memory.pages),
      chunks(tensor::Tag::kCache, layout.memory.sealed_bytes),
      raws(tensor::Tag::kCache, layout.memory.raw_bytes),
      sink_buffer(tensor::Tag::kCache, layout.memory.sink_bytes),
      states(tensor::Tag::kCache, layout.memory.state_bytes) {
  for (int i = 0; i < max_sequences; ++i) {
    auto s = std::make_unique<Sequence>();
    s->index = i;
    sequences.push_back(std::move(s));
  }
  for (int l = 0; l < layout.shape.layers; ++l) {
    const LayerLayout& layer = layer_at(l);
    for (int h = 0; h < layout.shape.kv_heads; ++h) {
      const Head k = head_k(l, h);
      const Head v = head_v(l, h);
      if (layer.k->init_state) layer.k->init_state(const_cast<void*>(k.state), k.d, Side::kKeys, l, h);
      if (layer.v->init_state) layer.v->init_state(const_cast<void*>(v.state), v.d, Side::kValues, l, h);
    }
  }
}

void Store::seal(int l, int head, Side side, const Sequence& s, std::int64_t page, float* scratch) const {
  const LayerLayout& layer = layer_at(l);
  const Blocks from = raw(l, head, s, page);
  const Blocks to = sealed(l, head, s.pages[static_cast<std::size_t>(page)]);
  if (side == Side::kKeys)
    layer.k->k.seal(head_k(l, head), from.k, first_row(page), scratch, to.k);
  else
    layer.v->v.seal(head_v(l, head), from.v, first_row(page), scratch, to.v);
}

void Store::unseal_raw(int l, int head, const Sequence& s, std::int64_t page) const {
  const LayerLayout& layer = layer_at(l);
  const Blocks from = sealed(l, head, s.pages[static_cast<std::size_t>(page)]);
  const Blocks to = raw(l, head, s, page);
  std::memcpy(to.k, from.k, layer.raw.k_bytes);
  std::memcpy(to.v, from.v, layer.raw.v_bytes);
}

void Store::append(int l, int head, Side side, const Sequence& s, std::int64_t position, int n, TokenRows rows) const {
  const LayerLayout& layer = layer_at(l);
  const auto write = [&](const Blocks& b, int capacity, int row, int count, const float* x) {
    if (side == Side::kKeys)
      layer.raw_k->write_k(b.k, capacity, row, count, x, rows.stride, layout.shape.head_dim);
    else
      layer.raw_v->write_v(b.v, capacity, row, count, x, rows.stride, layout.shape.head_dim_v);
  };
  int done = 0;
  if (position < layout.sinks) {
    done = static_cast<int>(std::min<std::int64_t>(n, layout.sinks - position));
    write(sinks(l, head, s), layout.sink_capacity, static_cast<int>(position), done, rows.data);
  }
  if (done == n) return;
  const std::int64_t p = position + done;
  write(raw(l, head, s, p / kPageTokens), kPageTokens, static_cast<int>(p % kPageTokens), n - done,
        rows.data + done * rows.stride);
}

std::uint64_t hash_bytes(std::uint64_t h, const std::byte* p, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 8) {
    std::uint64_t x = 0;
    std::memcpy(&x, p + i, std::min<std::size_t>(8, n - i));
    h = (h ^ x) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
  }
  return h;
}

namespace {

// Rows [begin, end) of a raw block: K is T[d][capacity], V is T[capacity][d].
std::uint64_t hash_rows(std::uint64_t h, const Blocks& b, const BlockLayout& size, int capacity, int d, int dv,
                        int begin, int end) {
  if (end <= begin) return h;
  const std::size_t ek = size.k_bytes / static_cast<std::size_t>(capacity * d);
  const std::size_t ev = size.v_bytes / static_cast<std::size_t>(capacity * dv);
  const auto rows = static_cast<std::size_t>(end - begin);
  for (int c = 0; c < d; ++c)
    h = hash_bytes(
        h,
        b.k + (static_cast<std::size_t>(c) * static_cast<std::size_t>(capacity) + static_cast<std::size_t>(begin)) * ek,
        rows * ek);
  return hash_bytes(h, b.v + static_cast<std::size_t>(begin * dv) * ev, rows * static_cast<std::size_t>(dv) * ev);
}

}  // namespace

std::uint64_t digest(const Store& st, const Sequence& s) {
  const Layout& l = st.layout;
  const int d = l.shape.head_dim;
  const int dv = l.shape.head_dim_v;
  std::uint64_t h = static_cast<std::uint64_t>(s.length);
  const std::int64_t sealed_pages = l.sealed_at(s.length - 1);
  for (int i = 0; i < l.shape.layers; ++i) {
    const LayerLayout& layer = st.layer_at(i);
    for (int head = 0; head < l.shape.kv_heads; ++head) {
      if (l.sinks > 0)
        h = hash_rows(h, st.sinks(i, head, s), layer.sinks, l.sink_capacity, d, dv, 0,
                      static_cast<int>(std::min<std::int64_t>(l.sinks, s.length)));
      for (std::int64_t page = 0; page * kPageTokens < s.length; ++page) {
        if (page < sealed_pages) {
          const Blocks b = st.sealed(i, head, s.pages[static_cast<std::size_t>(page)]);
          h = hash_bytes(hash_bytes(h, b.k, layer.sealed.k_bytes), b.v, layer.sealed.v_bytes);
        } else {
          h = hash_rows(h, st.raw(i, head, s, page), layer.raw, kPageTokens, d, dv, st.first_row(page),
                        static_cast<int>(std::min<std::int64_t>(kPageTokens, s.length - page * kPageTokens)));
        }
      }
    }
  }
  return h;
}

}  // namespace kvasir::kv
