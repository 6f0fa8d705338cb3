// Attention of prompts: all rows of an item times a page, which becomes a tile of floats unless its codec multiplies
// packed bytes by prompts, too.
#include <algorithm>

#include "kv/attend_item.hpp"

namespace kvasir::kv {

// One item of a prompt: scratch, and its rows against one page.
struct Attention::Tiles {
  const kernel::AttentionKernels& kernels = kernel::attention();
  const Rows& rows;
  const int* ends;
  int d;
  int dv;
  int pitch;
  float* weights;
  float* page_max;
  float* page_sum;
  kernel::States group;
  kernel::States total;
  float* sums = nullptr;  // what packed values add
  float* k_tile;
  float* v_tile;

  Tiles(const Layout& l, const Rows& item, const int* ends_of_rows, float* scratch)
      : rows(item), ends(ends_of_rows), d(l.shape.head_dim), dv(l.shape.head_dim_v), pitch(kernel::out_pitch(dv)) {
    Pieces pieces(scratch);
    const auto n = static_cast<std::size_t>(rows.count);
    weights = pieces.take(n * kPageTokens);
    page_max = pieces.take(n);
    page_sum = pieces.take(n);
    group = pieces.states(n, static_cast<std::size_t>(pitch));
    total = pieces.states(n, static_cast<std::size_t>(pitch));
    if (l.packed_prompts) sums = pieces.take(n * static_cast<std::size_t>(pitch));
    k_tile = pieces.take(static_cast<std::size_t>(kPageTokens * d));
    v_tile = pieces.take(0);
  }

  void weigh(const PageRef& page) const {
    kernels.weigh(weights, kPageTokens, rows.count, page.begin, ends, page_max, page_sum);
  }
  // Scores of a page of keys.
  void scores(const Codec& codec, const Head& head, const PageRef& page, const float* q) const {
    if (codec.packed_prompts) {
      codec.dots(head, &page, 1, q, rows.count, weights, kPageTokens);
    } else {
      codec.k.unseal(head, page, k_tile);
      kernels.scores(q, rows.count, d, k_tile, ends, weights);
    }
  }
  // Merges a page of values into `into`.
  void fold(const Codec& codec, const Head& head, const PageRef& page, const kernel::States& into) const {
    if (codec.packed_prompts) {
      codec.accumulate(head, &page, 1, weights, kPageTokens, rows.count, sums, pitch);
      kernels.fold(rows.count, dv, {page_max, page_sum, sums}, into);
    } else {
      codec.v.unseal(head, page, v_tile);
      kernels.fold_tile(weights, rows.count, dv, v_tile, page.begin, ends, page_max, page_sum, into);
    }
  }
};

void Attention::prefill(const Tensors& x, const Part& p, int head, int piece, int worker) const {
  const Layout& l = store_.layout;
  const LayerLayout& layer = store_.layer_at(x.layer);
  const Scratch s = scratch(worker);
  const int token = piece * p.tokens_per_item;
  const Rows rows = load_rows(x, p, head, token, std::min(p.tokens_per_item, p.tokens - token), s.q);
  const Tiles t(l, rows, s.ends, s.rest);
  const auto& kernels = t.kernels;

  const Head head_k = store_.head_k(x.layer, head);
  const Head head_v = store_.head_v(x.layer, head);
  const Head raw_k = store_.raw_head_k();
  const Head raw_v = store_.raw_head_v();
  const auto raw_page = [&](const PageRef& k, const PageRef& v, const kernel::States& into) {
    t.scores(*layer.raw_k, raw_k, k, rows.q);
    t.weigh(k);
    t.fold(*layer.raw_v, raw_v, v, into);
  };
  kernels.clear(rows.count, t.dv, t.total);
  if (l.sinks > 0) {
    const Blocks b = store_.sinks(x.layer, head, *p.sequence);
    const int end = rows.ends(0, l.sinks, s.ends);
    raw_page({b.k, 0, end, l.sink_capacity}, {b.v, 0, end, l.sink_capacity}, t.total);
  }
  const std::int64_t sealed = l.sealed_at(p.position);
  const float* basis_q = sealed > 0 ? to_basis(layer.k->k, head_k, rows, s.basis_q) : nullptr;
  for (std::int64_t g = 0; g * kGroupPages <= p.block; ++g) {
    kernels.clear(rows.count, t.dv, t.group);
    std::int32_t chosen[kGroupPages];
    const int count = select(x, p, rows, head, g, chosen);
    if (count > 0) std::fill_n(s.ends, rows.count, kPageTokens);  // sealed pages lie before every row
    for (int i = 0; i < count; ++i) {
      const Blocks b = store_.sealed(x.layer, head, p.sequence->pages[static_cast<std::size_t>(chosen[i])]);
      const PageRef k = page_ref(b.k, chosen[i], rows.last);
      const PageRef v = page_ref(b.v, chosen[i], rows.last);
      t.scores(*layer.k, head_k, k, basis_q);
      t.weigh(k);
      t.fold(*layer.v, head_v, v, t.group);
    }
    from_basis(layer.v->v, head_v, count, rows.count, t.group);
    for (auto i = std::max(g * kGroupPages, sealed); i <= p.block && i < (g + 1) * kGroupPages; ++i) {
      const Blocks b = store_.raw(x.layer, head, *p.sequence, i);
      rows.ends(i * kPageTokens, kPageTokens, s.ends);
      raw_page(page_ref(b.k, i, rows.last), page_ref(b.v, i, rows.last), t.group);
    }
    kernels.fold(rows.count, t.dv, t.group, t.total);
  }
  const std::int64_t out_row = static_cast<std::int64_t>(l.shape.query_heads) * t.dv;
  for (int i = 0; i < rows.count / l.group; ++i) {
    const std::size_t r = static_cast<std::size_t>(i * l.group);
    kernels.finish(l.group, t.dv,
                   {t.total.max + r, t.total.sum + r, t.total.out + r * static_cast<std::size_t>(t.pitch)},
                   x.out + (p.row + token + i) * out_row + static_cast<std::int64_t>(head) * l.group * t.dv, t.dv);
  }
}

}  // namespace kvasir::kv
