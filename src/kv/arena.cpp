#include "kv/arena.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kv/feedback.hpp"

namespace kvasir::kv {

// Of a head whose rotation and factors are there. metric: (d, d), of queries as the model makes them; as the codec
// turns them it is T H T^T, and T x is what to_basis makes of a row x.
static void fill_feedback(const Codec& codec, const Head& head, const float* metric) {
  const auto d = static_cast<std::size_t>(head.d);
  std::vector<float> rows(metric, metric + d * d);
  for (int side = 0; side < 2; ++side) {
    if (codec.k.to_basis) codec.k.to_basis(head, head.d, rows.data(), head.d);
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < i; ++j) std::swap(rows[i * d + j], rows[j * d + i]);
  }
  const std::vector<double> turned(rows.begin(), rows.end());
  make_feedback(head.d, turned.data(), const_cast<float*>(head.feedback));
}

Arena::Arena(Layout layout_in, int max_sequences, std::span<const std::vector<float>> key_factors,
             std::span<const std::vector<float>> key_metrics, const std::string& disk,
             std::shared_ptr<PageDevice> device)
    : layout(std::move(layout_in)),
      pool(layout.memory.pages, layout.extent_pages),
      pages(layout, pool, disk),
      summaries(tensor::Tag::kCache, static_cast<std::size_t>(layout.memory.pages) * layout.summary_bytes),
      outlines(tensor::Tag::kCache, static_cast<std::size_t>(layout.outline_tiles()) * layout.outline_bytes),
      locals(tensor::Tag::kCache, layout.memory.local_bytes),
      raws(tensor::Tag::kCache, layout.memory.raw_bytes),
      sink_buffer(tensor::Tag::kCache, layout.memory.sink_bytes),
      recurrents(tensor::Tag::kCache, layout.memory.recurrent_bytes),
      states(tensor::Tag::kCache, layout.memory.state_bytes),
      selections(tensor::Tag::kScratch, static_cast<std::size_t>(max_sequences) * layout.selection_bytes) {
  for (int i = 0; i < max_sequences; ++i) {
    auto s = std::make_unique<Sequence>();
    s->index = i;
    s->select = layout.select;
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
    DeviceLayer to{i, l.shape, l.k, l.v, l.k_params, l.v_params, l.sealed.k_bytes, l.sealed.v_bytes, {}, {}};
    for (int h = 0; h < l.shape.kv_heads; ++h) {
      to.heads_k.push_back(head_k(i, h));
      to.heads_v.push_back(head_v(i, h));
    }
    all.push_back(std::move(to));
  }
  return all;
}

static std::int32_t slot(const Sequence& s, std::int64_t page) { return s.pages[static_cast<std::size_t>(page)]; }

void Arena::forget_selection(const Sequence& s) const {
  if (layout.selection_bytes > 0) std::memset(selection_states(s), 0, layout.selection_bytes);
}

void Arena::cut_selection(const Sequence& s, std::int64_t n) const {
  if (layout.selection_bytes == 0) return;
  for (const int i : layout.asked) {
    const LayerLayout& l = layer_at(i);
    if (l.level_bytes > 0) levels(s, l).cut(n, layout.select.meter);
    for (int h = 0; h < l.shape.kv_heads; ++h) {
      if (l.selection_bytes > 0) choice(s, l, h).cut(n);
      if (l.tail_bytes > 0) value_sum(s, l, h).cut(n, l.shape.sum_dim());
    }
  }
}

void Arena::seal(int l, int head, Side side, const Sequence& s, std::int64_t page, const float* q,
                 float* scratch) const {
  const LayerLayout& layer = layer_at(l);
  if (side == Side::kValues && layer.shape.latent) return;
  const Blocks from = raw(l, head, s, page);
  Blocks to{};
  const bool away = pages.on_disk(layer);
  if (away) {  // every byte of it is kept and compared, those that the codec leaves alone, too
    to.k = to.v = reinterpret_cast<std::byte*>(scratch);
    std::memset(to.k, 0, std::max(layer.sealed.k_bytes, layer.sealed.v_bytes));
    scratch += layout.sealing_floats();
  } else {
    to = sealed(l, head, s, page);
  }
  const auto means = [&] {
    return reinterpret_cast<std::uint16_t*>(summary(layer, head, slot(s, page)) + layer.means_offset);
  };
  if (side == Side::kValues) {
    layer.v->v.seal(head_v(l, head), from.v, first_row(page), scratch, to.v);
    if (away) pages.hot().store(l, head, slot(s, page), side, {to.v, layer.sealed.v_bytes});
    if (!layout.select.tail || layer.summary_bytes == 0) return;
    // A tile of values is panels of 64 channels.
    const int dv = layer.shape.head_dim_v;
    layer.raw_v->v.unseal({dv, {}, nullptr}, {from.v, 0, kPageTokens, kPageTokens}, scratch);
    for (int c = 0; c < dv; c += kPanel)
      average(layout.select, scratch + static_cast<std::ptrdiff_t>(c) * kPageTokens, std::min(kPanel, dv - c), kPanel,
              1, first_row(page), means() + c, dv);
    return;
  }
  layer.k->k.seal(head_k(l, head), from.k, first_row(page), scratch, to.k);
  if (away) pages.hot().store(l, head, slot(s, page), side, {to.k, layer.sealed.k_bytes});
  if (layer.summary_bytes == 0) return;
  // A tile of keys is two panels of 64 tokens; a summary is made from (d, 128).
  const int d = layer.shape.head_dim;
  float* const tile = scratch;
  float* const keys = scratch + seal_floats(d);
  layer.raw_k->k.unseal({d, {}, nullptr}, {from.k, 0, kPageTokens, kPageTokens}, tile);
  for (int panel = 0; panel < kPageTokens / kPanel; ++panel)
    for (int c = 0; c < d; ++c)
      std::copy_n(tile + (static_cast<std::ptrdiff_t>(panel) * d + c) * kPanel, kPanel,
                  keys + static_cast<std::ptrdiff_t>(c) * kPageTokens + panel * kPanel);
  float* importance = nullptr;
  float* rest = keys + static_cast<std::ptrdiff_t>(d) * kPageTokens;
  if (layout.select.selector->weighs) {
    importance = std::exchange(rest, rest + kPageTokens);
    weigh_tokens(d, keys, first_row(page), q, layer.group(), importance);
  }
  summarise(layout.select, d, keys, first_row(page), importance, rest, summary(layer, head, slot(s, page)));
  draw_outline(l, head, s, page, rest);
  if (layout.select.tail && layer.shape.latent)
    average(layout.select, keys, d, 1, kPageTokens, first_row(page), means(), d);
}

void Arena::draw_outline(int l, int head, const Sequence& s, std::int64_t page, float* scratch) const {
  const LayerLayout& layer = layer_at(l);
  if (layer.outline_bytes == 0) return;
  const Selector& selector = *layout.select.selector;
  const int blocks = layout.select.blocks_per_page();
  const int pitch = summary_pitch(selector, layer.shape.head_dim);
  const FramePages base = frame_of(page);
  const std::byte* from[FramePages::kMost];
  for (int i = 0; i < base.count; ++i) from[i] = summary(layer, head, slot(s, base.from[i]));
  const OutlineFrame frame{scratch, scratch + pitch};
  kv::outlines().frame(from, base.count, blocks, selector.width(layer.shape.head_dim), pitch, frame);
  const std::int32_t to = slot(s, page);
  kv::outlines().draw(summary(layer, head, to), blocks, pitch, frame, outline_tile(layer, head, to),
                      static_cast<int>(to % slots_per_tile(blocks)) * blocks);
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
  if (layout.selection_bytes > 0) std::memcpy(selection_states(to), selection_states(from), layout.selection_bytes);
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

void Arena::unseal_raw(int l, int head, const Sequence& s, std::int64_t page) const {
  const LayerLayout& layer = layer_at(l);
  PinnedPages here(*this, l, head);
  if (!layer.local()) here.load({&s.pages[static_cast<std::size_t>(page)], 1});
  const Blocks from = layer.local() ? sealed(l, head, s, page) : here[0];
  const Blocks to = raw(l, head, s, page);
  std::memcpy(to.k, from.k, layer.raw.k_bytes);
  std::memcpy(to.v, from.v, layer.raw.v_bytes);
}

void Arena::append(int l, int head, Side side, const Sequence& s, std::int64_t position, int n, TokenRows rows) const {
  const LayerLayout& layer = layer_at(l);
  if (side == Side::kValues && layer.shape.latent) return;
  const auto write = [&](const Blocks& b, int capacity, int row, int count, const float* x) {
    if (side == Side::kKeys)
      layer.raw_k->write_k(b.k, capacity, row, count, x, rows.stride, layer.shape.head_dim);
    else
      layer.raw_v->write_v(b.v, capacity, row, count, x, rows.stride, layer.shape.head_dim_v);
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
