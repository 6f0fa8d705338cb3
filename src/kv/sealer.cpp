#include "kv/sealer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvasir::kv {

static std::int32_t slot(const Sequence& s, std::int64_t page) { return s.pages[static_cast<std::size_t>(page)]; }

void Sealer::enter(const LayerStep& step, const Part& p, int head, Side side, int worker) const {
  if (p.seals) {
    float* const q = step.scratch(worker);
    float* rest = q;
    if (side == Side::kKeys && arena_.layout.select.selector->weighs) {
      step.load_queries(p, head, 0, 1, q);
      rest += query_floats(step.layer().shape);
    }
    seal(step.x.layer, head, side, *p.sequence, arena_.layout.sealed_at(p.position) - 1, q, rest);
  }
  append(step, p, head, side);
}

void Sealer::append(const LayerStep& step, const Part& p, int head, Side side) const {
  append(step.x.layer, head, side, *p.sequence, p.position, p.tokens, step.tokens_of(side, p.row, head));
}

void Sealer::seal(int l, int head, Side side, const Sequence& s, std::int64_t page, const float* q,
                  float* scratch) const {
  const LayerLayout& layer = arena_.layer_at(l);
  if (side == Side::kValues && layer.shape.latent) return;
  const Blocks from = arena_.raw(l, head, s, page);
  Blocks to{};
  const bool away = arena_.pages.on_disk(layer);
  if (away) {  // every byte of it is kept and compared, those that the codec leaves alone, too
    to.k = to.v = reinterpret_cast<std::byte*>(scratch);
    std::memset(to.k, 0, std::max(layer.sealed.k_bytes, layer.sealed.v_bytes));
    scratch += arena_.layout.sealing_floats();
  } else {
    to = arena_.sealed(l, head, s, page);
  }
  const auto means = [&] {
    return reinterpret_cast<std::uint16_t*>(arena_.summary(layer, head, slot(s, page)) + layer.means_offset);
  };
  if (side == Side::kValues) {
    layer.v->v.seal(arena_.head_v(l, head), from.v, arena_.first_row(page), scratch, to.v);
    if (away) arena_.pages.hot().store(l, head, slot(s, page), side, {to.v, layer.sealed.v_bytes});
    if (!arena_.layout.select.tail || layer.summary_bytes == 0) return;
    // A tile of values is panels of 64 channels.
    const int dv = layer.shape.head_dim_v;
    layer.raw_v->v.unseal({dv, {}, nullptr}, {from.v, 0, kPageTokens, kPageTokens}, scratch);
    for (int c = 0; c < dv; c += kPanel)
      average(arena_.layout.select, scratch + static_cast<std::ptrdiff_t>(c) * kPageTokens, std::min(kPanel, dv - c),
              kPanel, 1, arena_.first_row(page), means() + c, dv);
    return;
  }
  layer.k->k.seal(arena_.head_k(l, head), from.k, arena_.first_row(page), scratch, to.k);
  if (away) arena_.pages.hot().store(l, head, slot(s, page), side, {to.k, layer.sealed.k_bytes});
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
  if (arena_.layout.select.selector->weighs) {
    importance = std::exchange(rest, rest + kPageTokens);
    weigh_tokens(d, keys, arena_.first_row(page), q, layer.group(), importance);
  }
  summarise(arena_.layout.select, d, keys, arena_.first_row(page), importance, rest,
            arena_.summary(layer, head, slot(s, page)));
  outline(l, head, s, page, rest);
  if (arena_.layout.select.tail && layer.shape.latent)
    average(arena_.layout.select, keys, d, 1, kPageTokens, arena_.first_row(page), means(), d);
}

void Sealer::outline(int l, int head, const Sequence& s, std::int64_t page, float* scratch) const {
  const LayerLayout& layer = arena_.layer_at(l);
  if (layer.outline_bytes == 0) return;
  const Selector& selector = *arena_.layout.select.selector;
  const int blocks = arena_.layout.select.blocks_per_page();
  const int pitch = summary_pitch(selector, layer.shape.head_dim);
  const FramePages base = frame_of(page);
  const std::byte* from[FramePages::kMost];
  for (int i = 0; i < base.count; ++i) from[i] = arena_.summary(layer, head, slot(s, base.from[i]));
  const OutlineFrame frame{scratch, scratch + pitch};
  kv::outlines().frame(from, base.count, blocks, selector.width(layer.shape.head_dim), pitch, frame);
  const std::int32_t to = slot(s, page);
  kv::outlines().draw(arena_.summary(layer, head, to), blocks, pitch, frame, arena_.outline_tile(layer, head, to),
                      static_cast<int>(to % slots_per_tile(blocks)) * blocks);
}

void Sealer::unseal(int l, int head, const Sequence& s, std::int64_t page) const {
  const LayerLayout& layer = arena_.layer_at(l);
  PinnedPages here(arena_, l, head);
  if (!layer.local()) here.load({&s.pages[static_cast<std::size_t>(page)], 1});
  const Blocks from = layer.local() ? arena_.sealed(l, head, s, page) : here[0];
  const Blocks to = arena_.raw(l, head, s, page);
  std::memcpy(to.k, from.k, layer.raw.k_bytes);
  std::memcpy(to.v, from.v, layer.raw.v_bytes);
}

void Sealer::append(int l, int head, Side side, const Sequence& s, std::int64_t position, int n, TokenRows rows) const {
  const LayerLayout& layer = arena_.layer_at(l);
  if (side == Side::kValues && layer.shape.latent) return;
  const auto write = [&](const Blocks& b, int capacity, int row, int count, const float* x) {
    if (side == Side::kKeys)
      layer.raw_k->write_k(b.k, capacity, row, count, x, rows.stride, layer.shape.head_dim);
    else
      layer.raw_v->write_v(b.v, capacity, row, count, x, rows.stride, layer.shape.head_dim_v);
  };
  int done = 0;
  if (position < arena_.layout.sinks) {
    done = static_cast<int>(std::min<std::int64_t>(n, arena_.layout.sinks - position));
    write(arena_.sinks(l, head, s), arena_.layout.sink_capacity, static_cast<int>(position), done, rows.data);
  }
  if (done == n) return;
  const std::int64_t p = position + done;
  write(arena_.raw(l, head, s, p / kPageTokens), kPageTokens, static_cast<int>(p % kPageTokens), n - done,
        rows.data + done * rows.stride);
}

}  // namespace kvasir::kv
