// What a selection does when a page is sealed, or comes from elsewhere.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "select/selection.hpp"

namespace kvasir::select {

bool BlockSelection::wants_queries() const { return memory_.layout().select.selector->weighs; }

void BlockSelection::on_seal(int l, int head, kv::Side side, const kv::Sequence& s, std::int64_t page,
                             const kv::Blocks& raw, const float* q, float* scratch) const {
  using kv::kPageTokens, kv::kPanel;
  const SelectSpec& spec = memory_.layout().select;
  const kv::LayerLayout& layer = arena_.layer_at(l);
  const std::int32_t slot = s.pages[static_cast<std::size_t>(page)];
  const int skip = arena_.first_row(page);
  if (side == kv::Side::kValues) {
    if (!spec.unread) return;
    // A tile of values is panels of 64 channels.
    const int dv = layer.shape.head_dim_v;
    layer.raw_v->v.unseal({dv, {}, nullptr}, {raw.v, 0, kPageTokens, kPageTokens}, scratch);
    for (int c = 0; c < dv; c += kPanel)
      average(spec, scratch + static_cast<std::ptrdiff_t>(c) * kPageTokens, std::min(kPanel, dv - c), kPanel, 1, skip,
              memory_.means(layer, head, slot) + c, dv);
    return;
  }
  // A tile of keys is two panels of 64 tokens; a summary is made from (d, 128).
  const int d = layer.shape.head_dim;
  float* const tile = scratch;
  float* const keys = scratch + kv::seal_floats(d);
  layer.raw_k->k.unseal({d, {}, nullptr}, {raw.k, 0, kPageTokens, kPageTokens}, tile);
  for (int panel = 0; panel < kPageTokens / kPanel; ++panel)
    for (int c = 0; c < d; ++c)
      std::copy_n(tile + (static_cast<std::ptrdiff_t>(panel) * d + c) * kPanel, kPanel,
                  keys + static_cast<std::ptrdiff_t>(c) * kPageTokens + panel * kPanel);
  float* importance = nullptr;
  float* rest = keys + static_cast<std::ptrdiff_t>(d) * kPageTokens;
  if (wants_queries()) {
    importance = std::exchange(rest, rest + kPageTokens);
    weigh_tokens(d, keys, skip, q, layer.group(), importance);
  }
  summarise(spec, d, keys, skip, importance, rest, arena_.summary(layer, head, slot));
  memory_.draw_outline(l, head, s, page, rest);
  if (spec.unread && layer.shape.latent)
    average(spec, keys, d, 1, kPageTokens, skip, memory_.means(layer, head, slot), d);
}

void BlockSelection::on_restore(const kv::Sequence& s, std::int64_t page) {
  if (memory_.layout().outline_bytes == 0) return;
  kv::visit_heads(arena_.layout, [&](int l, int h) { memory_.draw_outline(l, h, s, page, frame_.data()); });
}

}  // namespace kvasir::select
