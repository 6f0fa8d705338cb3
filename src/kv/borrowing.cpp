#include "kv/borrowing.hpp"

#include <algorithm>
#include <string>

#include "kv/cache_state.hpp"

namespace kvasir::kv {

std::int32_t Borrowing::adopt_page(std::span<const std::byte> from) {
  KVASIR_CHECK(!c_.open && from.size() == c_.memory.chunk_bytes);
  if (c_.arena.pool.free() == 0)
    throw Error(Code::kMemory, "none of " + std::to_string(c_.arena.pool.total()) + " pages is free", "KV cache");
  const std::int32_t slot = c_.arena.pool.take(c_.adopted.empty() ? -1 : c_.adopted.back());
  try {
    c_.fill(slot, from);
  } catch (...) {
    c_.arena.drop(slot);
    throw;
  }
  c_.adopted.push_back(slot);
  return slot;
}

void Borrowing::drop_page(std::int32_t slot) {
  auto& adopted = c_.adopted;
  const auto at = std::find(adopted.begin(), adopted.end(), slot);
  KVASIR_CHECK(at != adopted.end());
  adopted.erase(at);
  c_.arena.drop(slot);
}

void Borrowing::borrow(Sequence* s, std::span<const BorrowedRun> runs, std::span<const std::int64_t> fresh) {
  KVASIR_CHECK(!c_.open && !s->borrowed && !fresh.empty());
  c_.check_handle(s);
  const Layout& l = c_.arena.layout;
  if (l.has_window || l.recurs)
    throw Error(Code::kUnsupported,
                "layers with a state keep no pages that another sequence could read, and those with a window do with "
                "CacheOptions::whole_windows alone",
                "borrowed pages");
  for (const LayerShape& layer : l.shape.layers)
    if (layer.latent) throw Error(Code::kUnsupported, "latent rows are not read at another place", "borrowed pages");
  auto borrowed = std::make_unique<Borrowed>(s->length, runs, fresh);
  if (fresh.back() + 1 > c_.memory.tokens || !c_.holds(borrowed->places().end(), *borrowed))
    throw Error(Code::kMemory,
                std::to_string(fresh.back() + 1) + " tokens, of which " + std::to_string(borrowed->pages().size()) +
                    " pages are borrowed, exceed the capacity of " + std::to_string(c_.memory.tokens),
                "KV cache");
  for (const BorrowedPage& page : borrowed->pages()) c_.arena.pool.share(page.slot);
  s->borrowed = std::move(borrowed);
  s->exact = std::min(s->exact, s->length);
}

void Borrowing::unseal(std::span<const std::byte> page, int layer, int first, float* k, float* v) const {
  const Arena& arena = c_.arena;
  const LayerLayout& l = arena.layer_at(layer);
  KVASIR_CHECK(arena.owns(layer) && !l.local() && l.attends() && page.size() == c_.memory.chunk_bytes);
  // Pieces lie as visit_slot has them; readers touch a few bytes behind a block.
  std::size_t at = 0;
  for (int i = 0; i < layer; ++i) {
    const LayerLayout& before = arena.layer_at(i);
    if (before.owner == i && before.attends() && !before.local())
      at += static_cast<std::size_t>(before.shape.kv_heads) *
            (before.sealed.k_bytes + before.sealed.v_bytes + before.summary_bytes);
  }
  const LayerShape& s = l.shape;
  std::vector<std::byte> block(std::max(l.sealed.k_bytes, l.sealed.v_bytes) + kReadSlack + 64);
  std::byte* const aligned = block.data() + (64 - reinterpret_cast<std::uintptr_t>(block.data()) % 64) % 64;
  std::vector<float> tile;
  const auto side = [&](const CodecSide& codec, const Head& head, std::size_t bytes, bool keys, int h, float* out) {
    std::memcpy(aligned, page.data() + at, bytes);
    at += bytes;
    const int d = head.d;
    const int panels = (d + kPanel - 1) / kPanel;
    tile.assign(static_cast<std::size_t>(kPageTokens) * static_cast<std::size_t>(keys ? d : panels * kPanel), 0.0f);
    codec.unseal(head, {aligned, first, kPageTokens, kPageTokens}, tile.data());
    const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(s.kv_heads) * d;
    for (int t = 0; t < kPageTokens; ++t)
      for (int c = 0; c < d; ++c)
        out[t * stride + std::ptrdiff_t{h} * d + c] =
            keys ? tile[static_cast<std::size_t>(((t / kPanel) * d + c) * kPanel + t % kPanel)]
                 : tile[static_cast<std::size_t>(((c / kPanel) * kPageTokens + t) * kPanel + c % kPanel)];
    if (codec.from_basis) codec.from_basis(head, kPageTokens, out + std::ptrdiff_t{h} * d, stride);
  };
  for (int h = 0; h < s.kv_heads; ++h) {
    side(l.k->k, arena.head_k(layer, h), l.sealed.k_bytes, true, h, k);
    side(l.v->v, arena.head_v(layer, h), l.sealed.v_bytes, false, h, v);
    at += l.summary_bytes;
  }
}

bool Borrowing::borrows(const Sequence& sequence) { return sequence.borrowed != nullptr; }

}  // namespace kvasir::kv
