#include "kv/store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvasir::kv {

Store::Store(Layout layout_in, int max_sequences)
    : layout(std::move(layout_in)),
      pool(layout.memory.pages, layout.extent_pages),
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

namespace {

std::uint64_t hash_bytes(std::uint64_t h, const std::byte* p, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 8) {
    std::uint64_t x = 0;
    std::memcpy(&x, p + i, std::min<std::size_t>(8, n - i));
    h = (h ^ x) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace

std::uint64_t digest(const Store& st, const Sequence& s) {
  const Layout& l = st.layout;
  std::uint64_t h = static_cast<std::uint64_t>(s.length);
  const auto add = [&](const std::byte* p, std::size_t n) { h = hash_bytes(h, p, n); };
  visit_raw(st, s, add);
  for (int i = 0; i < l.shape.layers; ++i)
    for (int head = 0; head < l.shape.kv_heads; ++head)
      for (std::int64_t page = 0; page < l.sealed_at(s.length - 1); ++page) {
        const Blocks b = st.sealed(i, head, s.pages[static_cast<std::size_t>(page)]);
        add(b.k, st.layer_at(i).sealed.k_bytes);
        add(b.v, st.layer_at(i).sealed.v_bytes);
      }
  return h;
}

}  // namespace kvasir::kv
