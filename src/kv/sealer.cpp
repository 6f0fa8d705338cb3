#include "kv/sealer.hpp"

#include <algorithm>
#include <cstring>

namespace kvasir::kv {

static std::int32_t slot(const Sequence& s, std::int64_t page) { return s.pages[static_cast<std::size_t>(page)]; }

void Sealer::enter(const LayerStep& step, const Part& p, int head, Side side, int worker) const {
  if (p.seals) {
    float* const q = step.scratch(worker);
    float* rest = q;
    if (side == Side::kKeys && selection_.wants_queries()) {
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
  if (side == Side::kValues)
    layer.v->v.seal(arena_.head_v(l, head), from.v, arena_.first_row(page), scratch, to.v);
  else
    layer.k->k.seal(arena_.head_k(l, head), from.k, arena_.first_row(page), scratch, to.k);
  if (away)
    arena_.pages.hot().store(
        l, head, slot(s, page), side,
        side == Side::kValues ? std::span(to.v, layer.sealed.v_bytes) : std::span(to.k, layer.sealed.k_bytes));
  if (layer.summary_bytes > 0) selection_.on_seal(l, head, side, s, page, from, q, scratch);
}

void Sealer::unseal(const Arena& arena, int l, int head, const Sequence& s, std::int64_t page) {
  const LayerLayout& layer = arena.layer_at(l);
  PinnedPages here(arena, l, head);
  if (!layer.local()) here.load({&s.pages[static_cast<std::size_t>(page)], 1});
  const Blocks from = layer.local() ? arena.sealed(l, head, s, page) : here[0];
  const Blocks to = arena.raw(l, head, s, page);
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
