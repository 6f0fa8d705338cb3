#include "kv/arena.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kv/feedback.hpp"

namespace kvasir::kv {

// Of a head whose rotation and factors are there. metric: (d, d), of queries as the model makes them; as the codec
// rotates them it is T H T^T, and T x is what to_basis makes of a row x.
static void fill_feedback(const Codec& codec, const Head& head, const float* metric) {
  const auto d = static_cast<std::size_t>(head.d);
  std::vector<float> rows(metric, metric + d * d);
  for (int side = 0; side < 2; ++side) {
    if (codec.k.to_basis) codec.k.to_basis(head, head.d, rows.data(), head.d);
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < i; ++j) std::swap(rows[i * d + j], rows[j * d + i]);
  }
  const std::vector<double> rotated(rows.begin(), rows.end());
  make_feedback(head.d, rotated.data(), const_cast<float*>(head.feedback));
}

Arena::Arena(Layout layout_in, int max_sequences, std::span<const std::vector<float>> key_factors,
             std::span<const std::vector<float>> key_metrics, const std::string& disk,
             std::shared_ptr<PageDevice> device)
    : layout(std::move(layout_in)),
      pool(layout.memory.pages, layout.extent_pages),
      pages(layout, pool, disk),
      summaries(tensor::Tag::kCache, static_cast<std::size_t>(layout.memory.pages) * layout.summary_bytes),
      locals(tensor::Tag::kCache, layout.memory.local_bytes),
      raws(tensor::Tag::kCache, layout.memory.raw_bytes),
      sink_buffer(tensor::Tag::kCache, layout.memory.sink_bytes),
      recurrents(tensor::Tag::kCache, layout.memory.recurrent_bytes),
      states(tensor::Tag::kCache, layout.memory.state_bytes) {
  for (int i = 0; i < max_sequences; ++i) {
    auto s = std::make_unique<Sequence>();
    s->index = i;
    s->selector = layout.selector;
    sequences.push_back(std::move(s));
  }
  visit_heads(layout, [&](int l, int h) {
    const LayerLayout& layer = layer_at(l);
    const Head k = head_k(l, h);
    const Head v = head_v(l, h);
    if (layer.k->init_state) layer.k->init_state(const_cast<void*>(k.state), k.d, Side::kKeys, l, h);
    const auto at = static_cast<std::size_t>(l);
    if (layer.k->set_factors && at < key_factors.size() && !key_factors[at].empty())
      layer.k->set_factors(const_cast<void*>(k.state), k.d, key_factors[at].data() + std::ptrdiff_t{h} * k.d);
    if (k.feedback) fill_feedback(*layer.k, k, key_metrics[at].data() + std::ptrdiff_t{h} * k.d * k.d);
    if (layer.v->init_state && v.state) layer.v->init_state(const_cast<void*>(v.state), v.d, Side::kValues, l, h);
  });
  if (device) pages.attach(std::move(device), device_layers());
}

std::vector<DeviceLayer> Arena::device_layers() const {
  std::vector<DeviceLayer> all;
  for (int i = 0; i < layout.shape.count(); ++i) {
    const LayerLayout& l = layer_at(i);
    if (!owns(i) || !l.attends() || l.shape.window > 0) continue;
    if (l.shape.chooses > 0 || l.shape.chosen_by >= 0) continue;  // the host does all of these
    DeviceLayer to{i, l.shape, l.k, l.v, l.k_params, l.v_params, l.sealed.k_bytes, l.sealed.v_bytes, {}, {}};
    for (int h = 0; h < l.shape.kv_heads; ++h) {
      to.heads_k.push_back(head_k(i, h));
      to.heads_v.push_back(head_v(i, h));
    }
    all.push_back(std::move(to));
  }
  return all;
}

void Arena::copy_own(const Sequence& from, const Sequence& to) const {
  const auto copy = [](const Blocks& source, const Blocks& target, const BlockLayout& size) {
    std::memcpy(target.k, source.k, size.k_bytes);
    std::memcpy(target.v, source.v, size.v_bytes);
  };
  const std::int64_t sealed = layout.sealed_at(from.length - 1);
  visit_heads(layout, [&](int l, int h) {
    const LayerLayout& layer = layer_at(l);
    if (layout.sinks > 0 && from.length > 0) copy(sinks(l, h, from), sinks(l, h, to), layer.sinks);
    for (auto page = first_raw(layer, from.length); page * kPageTokens < from.length; ++page)
      copy(raw(l, h, from, page), raw(l, h, to, page), layer.raw);
    for (auto page = layer.first_kept(from.length); layer.local() && page < sealed; ++page)
      copy(this->sealed(l, h, from, page), this->sealed(l, h, to, page), layer.sealed);
  });
  for (const LayerLayout& layer : layout.layers) {
    if (!layer.shape.recurrent) continue;
    const auto copy_floats = [&](std::size_t begin, std::size_t count) {
      std::copy_n(recurrent(from, begin), count, recurrent(to, begin));
    };
    const std::int64_t boundary = boundary_of(from.length);
    const RecurrentLayout& r = layer.recurrent;
    if (boundary > 0) copy_floats(r.columns, r.rows - r.columns);
    copy_floats(r.rows, static_cast<std::size_t>(from.length - boundary) *
                            static_cast<std::size_t>(layer.shape.recurrent.row()));
    if (from.live) copy_floats(r.live, r.boundary_floats);
  }
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

std::uint64_t digest(const Arena& arena, const Sequence& s) {
  std::uint64_t h = static_cast<std::uint64_t>(s.length);
  const auto add = [&](const std::byte* p, std::size_t n) { h = hash_bytes(h, p, n); };
  visit_tail(arena, s, add);
  visit_heads(arena.layout, [&](int i, int head) {
    const LayerLayout& l = arena.layer_at(i);
    if (l.local()) return;
    for (std::int64_t page = 0; page < arena.layout.sealed_at(s.length - 1); ++page) {
      PinnedPages here(arena, i, head);
      here.load({&s.pages[static_cast<std::size_t>(page)], 1});
      add(here[0].k, l.sealed.k_bytes);
      add(here[0].v, l.sealed.v_bytes);
    }
  });
  return h;
}

}  // namespace kvasir::kv
