#include "kv/sequence_bytes.hpp"

#include <cstring>
#include <string>

#include "kv/cache_state.hpp"

namespace kvasir::kv {

std::vector<std::span<const std::byte>> SequenceBytes::sealed_page(const Sequence& s, std::int64_t page) const {
  c_.check_handle(&s);
  std::vector<std::span<const std::byte>> pieces;
  c_.arena.pages.load(s.pages.at(static_cast<std::size_t>(page)));
  visit_page(c_.arena, s, page, [&](const std::byte* p, std::size_t n) { pieces.emplace_back(p, n); });
  return pieces;
}

void SequenceBytes::save_tail(const Sequence& s, std::int64_t n, std::span<std::byte> tail) const {
  c_.check_handle(&s);
  KVASIR_CHECK(!c_.open && c_.rules.keeps_tail(s.text_length(), n) && tail.size() == c_.rules.tail_bytes(n));
  Sequence shorter;  // where raw pages lie depends on these alone
  shorter.index = s.index;
  shorter.length = n;
  shorter.pages = s.pages;
  std::byte* to = tail.data();
  visit_tail(c_.arena, shorter, [&](const std::byte* from, std::size_t size) {
    std::memcpy(to, from, size);
    to += size;
  });
}

Sequence* SequenceBytes::restore_pages(std::int64_t pages, std::int64_t n, std::span<const std::byte> tail) {
  KVASIR_CHECK(c_.rules.pages_suffice() && c_.rules.sinks() <= n && n <= pages * kPageTokens);
  return restore(pages * kPageTokens, n, tail);
}

// What `tail`, that of the first tail_of tokens, has besides the sinks is written over by fill_page where it is
// shorter.
Sequence* SequenceBytes::restore(std::int64_t n, std::int64_t tail_of, std::span<const std::byte> tail) {
  KVASIR_CHECK(n >= 1);
  if (tail.size() != c_.rules.tail_bytes(tail_of))
    throw Error(Code::kBadInput,
                "has " + std::to_string(tail.size()) + " bytes, expected " +
                    std::to_string(c_.rules.tail_bytes(tail_of)) + " for " + std::to_string(tail_of) + " tokens",
                "tail");
  Arena& arena = c_.arena;
  const std::int64_t pages = c_.rules.sealed_pages(n);
  if (n > c_.memory.tokens || pages > arena.pool.free())
    throw Error(Code::kMemory,
                std::to_string(n) + " tokens need " + std::to_string(pages) + " pages, " +
                    std::to_string(arena.pool.free()) + " of " + std::to_string(arena.pool.total()) + " are free",
                "KV cache");
  Sequence* s = c_.create();
  s->length = n;
  s->live = false;
  arena.grow(s, pages);
  Sequence of;  // where raw pages lie depends on these alone
  of.index = s->index;
  of.length = tail_of;
  const std::byte* from = tail.data();
  visit_tail(arena, of, [&](std::byte* to, std::size_t size) {
    std::memcpy(to, from, size);
    from += size;
  });
  return s;
}

// The raw page from the pieces of its sealed form, see SequenceBytes::sealed_page. REQUIRES: Rules::pages_suffice().
static void fill_raw(const Arena& arena, const Sequence& s, std::int64_t page, std::span<const std::byte> from) {
  KVASIR_CHECK((page + 1) * kPageTokens <= s.length);
  visit_heads(arena.layout, [&](int i, int head) {
    const LayerLayout& l = arena.layer_at(i);
    const Blocks raw = arena.raw(i, head, s, page);
    std::memcpy(raw.k, from.data(), l.raw.k_bytes);
    std::memcpy(raw.v, from.data() + l.sealed.k_bytes, l.raw.v_bytes);
    from = from.subspan(l.sealed.k_bytes + l.sealed.v_bytes + l.summary_bytes);
  });
}

void SequenceBytes::fill_page(Sequence& s, std::int64_t page, std::span<const std::byte> from) {
  c_.check_handle(&s);
  KVASIR_CHECK(from.size() == c_.memory.chunk_bytes);
  if (page >= static_cast<std::int64_t>(s.pages.size())) return fill_raw(c_.arena, s, page, from);
  c_.fill(s.pages.at(static_cast<std::size_t>(page)), from);
  const Arena& arena = c_.arena;
  arena.pages.on_seal(s.pages[static_cast<std::size_t>(page)]);
  c_.selection().on_restore(s, page);
}

std::uint64_t SequenceBytes::digest(const Sequence& s) const { return kv::digest(c_.arena, s); }

}  // namespace kvasir::kv
