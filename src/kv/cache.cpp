#include "kv/cache.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kv/arena.hpp"
#include "kv/attend.hpp"
#include "kv/recur.hpp"

namespace kvasir::kv {

struct Cache::Impl {
  Impl(Team& team, const CacheShape& shape, const CacheOptions& options)
      : arena(make_layout(shape, options, team.size()), options.max_sequences, options.key_factors, options.key_metrics,
              options.disk, options.device),
        attention(team, arena, options.max_sequences),
        recurrence(team, arena) {
    // One sequence can be as long as the pool allows: its page table never grows in a step.
    for (auto& s : arena.sequences) s->pages.reserve(static_cast<std::size_t>(arena.layout.memory.pages));
    slices.reserve(static_cast<std::size_t>(options.max_sequences));
    attended.resize(shape.layers.size());
    recurred.resize(shape.layers.size());
    memory = arena.layout.memory;
    shares = std::any_of(shape.layers.begin(), shape.layers.end(), [](const LayerShape& l) { return l.kv_of >= 0; });
    step_tokens = options.step_tokens;
    const Selector& selector = *arena.layout.select.selector;
    for (const LayerLayout& l : arena.layout.layers)
      if (selector.width && l.attends())
        frame.resize(std::max(frame.size(), summary_floats(arena.layout.select, l.shape.head_dim)));
  }

  // Sealed pages of a sequence of n tokens.
  std::int64_t sealed_pages(std::int64_t n) const { return arena.layout.sealed_at(n - 1); }

  void check_handle(const Sequence* s) const {
    KVASIR_CHECK(s && s->index >= 0 && static_cast<std::size_t>(s->index) < arena.sequences.size() &&
                 arena.sequences[static_cast<std::size_t>(s->index)].get() == s && s->used);
  }
  // A page of the pool from its pieces, see Cache::sealed_page. Throws Error(kIo).
  void fill(std::int32_t slot, std::span<const std::byte> from) {
    visit_slot(arena, slot, [&](std::byte* p, std::size_t n) {
      std::memcpy(p, from.data(), n);
      from = from.subspan(n);
    });
    arena.pages.store(slot);
  }
  void give_back_borrowed(Sequence* s) {
    if (!s->borrowed) return;
    for (const BorrowedPage& page : s->borrowed->pages()) arena.drop(page.slot);
    s->borrowed.reset();
  }
  void drop_own(Sequence* s, std::int64_t keep) {
    while (static_cast<std::int64_t>(s->pages.size()) > keep) {
      arena.drop(s->pages.back());
      s->pages.pop_back();
    }
  }
  void drop_all(Sequence* s) {
    drop_own(s, 0);
    give_back_borrowed(s);
  }

  Meter& meter() { return attention.selection().meter(); }

  Arena arena;
  Attention attention;
  Recurrence recurrence;
  MemoryPlan memory;
  std::vector<std::int32_t> adopted;  // slots
  std::vector<Slice> slices;          // of the open step
  std::vector<char> attended;         // layers, in the open step
  std::vector<char> recurred;
  std::vector<float> frame;  // scratch of outlines
  // Whether partial states have room: of the groups of own tokens and of borrowed pages.
  bool holds(std::int64_t own, const Borrowed& borrowed) const {
    return own / kPageTokens + static_cast<std::int64_t>(borrowed.pages().size()) <=
           memory.tokens / kPageTokens + kGroupPages;
  }

  bool open = false;
  bool shares;  // some layer reads another one's keys
  int step_tokens;
};

Cache::Cache(Team& team, const CacheShape& shape, const CacheOptions& options)
    : impl_(std::make_unique<Impl>(team, shape, options)) {}
Cache::~Cache() = default;

const CacheShape& Cache::shape() const { return impl_->arena.layout.shape; }
const MemoryPlan& Cache::memory() const { return impl_->memory; }
std::int64_t Cache::length(const Sequence& sequence) { return sequence.text_length(); }
std::int64_t Cache::position(const Sequence& sequence, std::int64_t ahead) {
  return sequence.place(sequence.length + ahead);
}
bool Cache::borrows(const Sequence& sequence) { return sequence.borrowed != nullptr; }
std::int64_t Cache::sinks() const { return impl_->arena.layout.sinks; }
std::int64_t Cache::free_pages() const { return impl_->arena.pool.free(); }
std::int64_t Cache::shared_pages() const { return impl_->arena.pool.shared(); }
std::int64_t Cache::sealed_tokens(const Sequence& s) const { return impl_->sealed_pages(s.length) * kPageTokens; }
bool Cache::can_draft() const {
  const Layout& l = impl_->arena.layout;
  return (l.drafts || !l.recurs) && (l.select.dense() || !l.select.keeps_state());
}
std::int64_t Cache::draft_room(const Sequence& s) const {
  if (s.borrowed) return 0;
  return std::min((s.length / kPageTokens + 1) * kPageTokens, impl_->arena.layout.next_seal(s.length)) - 1 - s.length;
}
std::uint64_t Cache::digest(const Sequence& s) const { return kv::digest(impl_->arena, s); }

Sequence* Cache::create() {
  KVASIR_CHECK(!impl_->open);
  for (auto& s : impl_->arena.sequences) {
    if (s->used) continue;
    s->used = true;
    s->length = 0;
    s->exact = kAllExact;
    s->live = true;
    s->marked = -1;
    s->select = impl_->arena.layout.select;
    impl_->arena.forget_selection(*s);
    impl_->meter().reset_stats(*s);
    return s.get();
  }
  throw Error(Code::kMemory, "all " + std::to_string(impl_->arena.sequences.size()) + " sequences are in use",
              "cache option max_sequences");
}

void Cache::release(Sequence* s) {
  KVASIR_CHECK(!impl_->open);
  impl_->check_handle(s);
  impl_->drop_all(s);
  s->length = 0;
  s->used = false;
}

Sequence* Cache::fork(const Sequence& from) {
  impl_->check_handle(&from);
  Sequence* to = create();
  to->length = from.length;
  to->exact = from.exact;
  to->live = from.live;
  to->select = from.select;
  impl_->meter().set_stats(*to, impl_->meter().stats(from));
  for (const auto slot : from.pages) {
    impl_->arena.pool.share(slot);
    to->pages.push_back(slot);
  }
  impl_->arena.copy_own(from, *to);
  if (from.borrowed) {
    for (const BorrowedPage& page : from.borrowed->pages()) impl_->arena.pool.share(page.slot);
    to->borrowed = std::make_unique<Borrowed>(*from.borrowed);
  }
  return to;
}

// Own tokens among the first n of a text.
static std::int64_t own_of(const Sequence& s, std::int64_t n) {
  return s.borrowed && n > 0 ? n - (s.text_length() - s.length) : n;
}

bool Cache::can_truncate(const Sequence& s, std::int64_t text) const {
  // What is cut within a text that is not the sequence's own would leave it without a fresh last token.
  if (s.borrowed && text > 0 && (s.length < s.borrowed->places().end() || own_of(s, text) < s.borrowed->places().end()))
    return text == s.text_length();
  const std::int64_t n = own_of(s, text);
  const std::int64_t keep = impl_->sealed_pages(n);
  const std::int64_t last = n > 0 ? (n - 1) / kPageTokens : -1;
  const Layout& l = impl_->arena.layout;
  for (const LayerLayout& layer : l.layers)
    if (n > 0 && layer.first_kept(n) < layer.first_kept(s.length)) return false;
  if (l.recurs && n > 0 && boundary_of(n) < boundary_of(s.length)) return false;
  return keep >= impl_->sealed_pages(s.length) || last < keep || l.lossless;
}

void Cache::truncate(Sequence* s, std::int64_t n) {
  KVASIR_CHECK(!impl_->open);
  impl_->check_handle(s);
  KVASIR_CHECK(n >= 0 && n <= s->text_length());
  const Arena& arena = impl_->arena;
  const std::int64_t text = n;
  if (can_truncate(*s, text)) n = own_of(*s, text);
  const std::int64_t sealed = impl_->sealed_pages(s->length);
  const std::int64_t keep = impl_->sealed_pages(n);
  // Pages [keep, last] become raw; of them [sealed, last] still are.
  const std::int64_t last = n > 0 ? (n - 1) / kPageTokens : -1;
  if (!can_truncate(*s, text))
    throw Error(Code::kUnsupported,
                "a sequence of " + std::to_string(s->text_length()) + " tokens cannot be cut to " +
                    std::to_string(text) +
                    ": what must be raw again exists only compressed, a layer with a window has given it back, or a "
                    "recurrent layer has gone on",
                "truncate");
  const Sealer sealer(arena);
  visit_heads(arena.layout, [&](int l, int h) {
    const LayerLayout& layer = arena.layer_at(l);
    for (auto page = std::max(keep, layer.first_kept(n)); layer.seals() && page < sealed && page <= last; ++page)
      sealer.unseal(l, h, *s, page);
  });
  n == 0 ? impl_->drop_all(s) : impl_->drop_own(s, keep);
  if (n < s->length) {
    arena.cut_selection(*s, n);
    s->live = n == 0;
    if (n < s->marked) s->marked = -1;
  }
  if (n <= s->exact) s->exact = kAllExact;
  s->length = n;
}

double Cache::packed_share(std::int64_t first, std::int64_t count, bool decode) const {
  const Layout& l = impl_->arena.layout;
  double all = 0;
  double packed = 0;
  for (const LayerLayout& layer : l.layers) {
    if (!layer.attends()) continue;
    double seen = 0;
    double sealed = 0;
    for (std::int64_t p = first; p < first + count; ++p) {
      const std::int64_t w = layer.shape.window;
      const std::int64_t begin = w == 0 ? 0 : layer.shape.chunked ? p - p % w : std::max<std::int64_t>(0, p + 1 - w);
      seen += static_cast<double>(p + 1 - begin);
      sealed += static_cast<double>(
          std::max<std::int64_t>(0, l.sealed_at(p) * kPageTokens - std::max<std::int64_t>(l.sinks, begin)));
    }
    const auto side = [&](const Codec& codec, int d) {
      const double products = static_cast<double>(layer.shape.query_heads) * d;
      all += products * seen;
      if (layer.shape.latent) return;
      if (codec.packed_prompts || (decode && !codec.lossless)) packed += products * sealed;
    };
    side(*layer.k, layer.shape.head_dim);
    side(*layer.v, layer.shape.head_dim_v);
  }
  return all > 0 ? packed / all : 0;
}

std::int64_t Cache::sealed_pages_at(std::int64_t n) const { return impl_->sealed_pages(n); }

std::vector<std::span<const std::byte>> Cache::sealed_page(const Sequence& s, std::int64_t page) const {
  impl_->check_handle(&s);
  std::vector<std::span<const std::byte>> pieces;
  impl_->arena.pages.load(s.pages.at(static_cast<std::size_t>(page)));
  visit_page(impl_->arena, s, page, [&](const std::byte* p, std::size_t n) { pieces.emplace_back(p, n); });
  return pieces;
}

// The raw page from the pieces of its sealed form, see Cache::sealed_page. REQUIRES: Cache::pages_suffice().
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

void Cache::fill_page(Sequence& s, std::int64_t page, std::span<const std::byte> from) {
  impl_->check_handle(&s);
  KVASIR_CHECK(from.size() == impl_->memory.chunk_bytes);
  if (page >= static_cast<std::int64_t>(s.pages.size())) return fill_raw(impl_->arena, s, page, from);
  impl_->fill(s.pages.at(static_cast<std::size_t>(page)), from);
  const Arena& arena = impl_->arena;
  const Sealer sealer(arena);
  arena.pages.on_seal(s.pages[static_cast<std::size_t>(page)]);
  if (arena.layout.outline_bytes > 0)
    visit_heads(arena.layout, [&](int l, int h) { sealer.outline(l, h, s, page, impl_->frame.data()); });
}

std::int32_t Cache::adopt_page(std::span<const std::byte> from) {
  Impl& m = *impl_;
  KVASIR_CHECK(!m.open && from.size() == m.memory.chunk_bytes);
  if (m.arena.pool.free() == 0)
    throw Error(Code::kMemory, "none of " + std::to_string(m.arena.pool.total()) + " pages is free", "KV cache");
  const std::int32_t slot = m.arena.pool.take(m.adopted.empty() ? -1 : m.adopted.back());
  try {
    m.fill(slot, from);
  } catch (...) {
    m.arena.drop(slot);
    throw;
  }
  m.adopted.push_back(slot);
  return slot;
}

void Cache::drop_page(std::int32_t slot) {
  auto& adopted = impl_->adopted;
  const auto at = std::find(adopted.begin(), adopted.end(), slot);
  KVASIR_CHECK(at != adopted.end());
  adopted.erase(at);
  impl_->arena.drop(slot);
}

void Cache::borrow(Sequence* s, std::span<const BorrowedRun> runs, std::span<const std::int64_t> fresh) {
  Impl& m = *impl_;
  KVASIR_CHECK(!m.open && !s->borrowed && !fresh.empty());
  m.check_handle(s);
  const Layout& l = m.arena.layout;
  if (l.has_window || l.recurs)
    throw Error(Code::kUnsupported,
                "layers with a state keep no pages that another sequence could read, and those with a window do with "
                "CacheOptions::whole_windows alone",
                "borrowed pages");
  for (const LayerShape& layer : l.shape.layers)
    if (layer.latent) throw Error(Code::kUnsupported, "latent rows are not read at another place", "borrowed pages");
  auto borrowed = std::make_unique<Borrowed>(s->length, runs, fresh);
  if (fresh.back() + 1 > m.memory.tokens || !m.holds(borrowed->places().end(), *borrowed))
    throw Error(Code::kMemory,
                std::to_string(fresh.back() + 1) + " tokens, of which " + std::to_string(borrowed->pages().size()) +
                    " pages are borrowed, exceed the capacity of " + std::to_string(m.memory.tokens),
                "KV cache");
  for (const BorrowedPage& page : borrowed->pages()) m.arena.pool.share(page.slot);
  s->borrowed = std::move(borrowed);
  s->exact = std::min(s->exact, s->length);
}

void Cache::unseal(std::span<const std::byte> page, int layer, int first, float* k, float* v) const {
  const Arena& arena = impl_->arena;
  const LayerLayout& l = arena.layer_at(layer);
  KVASIR_CHECK(arena.owns(layer) && !l.local() && l.attends() && page.size() == impl_->memory.chunk_bytes);
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

std::size_t Cache::tail_bytes(std::int64_t n) const {
  KVASIR_CHECK(n >= 0);
  Sequence s;  // the sizes depend on its length alone
  s.length = n;
  std::size_t bytes = 0;
  visit_tail(impl_->arena, s, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

bool Cache::pages_suffice() const {
  const Layout& l = impl_->arena.layout;
  return l.attends && l.lossless && !l.recurs &&
         std::none_of(l.layers.begin(), l.layers.end(), [](const LayerLayout& layer) { return layer.local(); });
}

std::int64_t Cache::tail_kept_to(std::int64_t n) const {
  return std::min((n + kPageTokens - 1) / kPageTokens * kPageTokens, impl_->arena.layout.next_seal(n - 1));
}

std::int64_t Cache::tail_kept_from(std::int64_t n) const {
  const Layout& l = impl_->arena.layout;
  const std::int64_t sealed = impl_->sealed_pages(n), begin = (n - 1) / kPageTokens * kPageTokens + 1;
  return sealed > 0 ? std::max(begin, sealed * kPageTokens + l.residual) : begin;
}

bool Cache::keeps_tail(std::int64_t length, std::int64_t n) const {
  if (n <= length && pages_suffice() && !impl_->arena.pages.on_disk()) return true;
  for (const LayerLayout& layer : impl_->arena.layout.layers)
    if (layer.first_kept(n) < layer.first_kept(length)) return false;
  if (impl_->arena.layout.recurs && boundary_of(n) < boundary_of(length)) return false;
  return n <= length && impl_->sealed_pages(n) == impl_->sealed_pages(length);
}

void Cache::save_tail(const Sequence& s, std::int64_t n, std::span<std::byte> tail) const {
  impl_->check_handle(&s);
  KVASIR_CHECK(!impl_->open && has_tail(s, n) && tail.size() == tail_bytes(n));
  Sequence shorter;  // where raw pages lie depends on these alone
  shorter.index = s.index;
  shorter.length = n;
  shorter.pages = s.pages;
  std::byte* to = tail.data();
  visit_tail(impl_->arena, shorter, [&](const std::byte* from, std::size_t size) {
    std::memcpy(to, from, size);
    to += size;
  });
}

Sequence* Cache::restore(std::int64_t n, std::span<const std::byte> tail) { return restore(n, n, tail); }

Sequence* Cache::restore_pages(std::int64_t pages, std::int64_t n, std::span<const std::byte> tail) {
  KVASIR_CHECK(pages_suffice() && sinks() <= n && n <= pages * kPageTokens);
  return restore(pages * kPageTokens, n, tail);
}

// What `tail`, that of the first tail_of tokens, has besides the sinks is written over by fill_page where it is
// shorter.
Sequence* Cache::restore(std::int64_t n, std::int64_t tail_of, std::span<const std::byte> tail) {
  KVASIR_CHECK(n >= 1);
  if (tail.size() != tail_bytes(tail_of))
    throw Error(Code::kBadInput,
                "has " + std::to_string(tail.size()) + " bytes, expected " + std::to_string(tail_bytes(tail_of)) +
                    " for " + std::to_string(tail_of) + " tokens",
                "tail");
  Arena& arena = impl_->arena;
  const std::int64_t pages = impl_->sealed_pages(n);
  if (n > impl_->memory.tokens || pages > arena.pool.free())
    throw Error(Code::kMemory,
                std::to_string(n) + " tokens need " + std::to_string(pages) + " pages, " +
                    std::to_string(arena.pool.free()) + " of " + std::to_string(arena.pool.total()) + " are free",
                "KV cache");
  Sequence* s = create();
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

void Cache::begin(std::span<const Slice> slices) {
  Impl& m = *impl_;
  KVASIR_CHECK(!m.open);
  KVASIR_CHECK(slices.size() <= m.arena.sequences.size());
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& s = slices[i];
    m.check_handle(s.sequence);
    KVASIR_CHECK(s.count >= 1 && s.row >= 0 && (!m.shares || s.count <= m.step_tokens));
    for (std::size_t j = 0; j < i; ++j) KVASIR_CHECK(slices[j].sequence != s.sequence);
    const std::int64_t length = s.sequence->length + s.count;
    if (s.sequence->place(length - 1) >= m.memory.tokens ||
        (s.sequence->borrowed && !m.holds(length, *s.sequence->borrowed)))
      throw Error(Code::kMemory,
                  "a sequence of " + std::to_string(length) + " tokens exceeds the capacity of " +
                      std::to_string(m.memory.tokens),
                  "KV cache");
    needed += m.sealed_pages(length) - static_cast<std::int64_t>(s.sequence->pages.size());
  }
  if (needed > m.arena.pool.free())
    throw Error(Code::kMemory,
                "the step needs " + std::to_string(needed) + " pages, " + std::to_string(m.arena.pool.free()) + " of " +
                    std::to_string(m.arena.pool.total()) + " are free",
                "KV cache");
  m.attention.reserve(slices);
  for (const Slice& s : slices) m.meter().begin_step(*s.sequence);
  m.memory.scratch_bytes = m.attention.scratch_bytes() + m.recurrence.scratch_bytes();
  for (const Slice& s : slices) m.arena.grow(s.sequence, m.sealed_pages(s.sequence->length + s.count));
  m.slices.assign(slices.begin(), slices.end());
  std::fill(m.attended.begin(), m.attended.end(), 0);
  std::fill(m.recurred.begin(), m.recurred.end(), 0);
  m.open = true;
}

void Cache::attend(int layer, const float* q, const float* k, const float* v, float* out, const Scoring& scoring) {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.arena.layout.shape.count());
  char& attended = m.attended[static_cast<std::size_t>(layer)];
  const int owner = m.arena.layer_at(layer).owner;
  KVASIR_CHECK(!attended && m.arena.layer_at(layer).attends() &&
               (owner == layer || m.attended[static_cast<std::size_t>(owner)]));
  attended = 1;
  m.attention.run(m.slices, {layer, q, k, v, out, scoring});
  try {
    m.arena.pages.check();
  } catch (const Error&) {
    abort();
    throw;
  }
}

void Cache::recur(int layer, const Recurrent& recurrent, const float* x, const float* gates, float* out) {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.arena.layout.shape.count());
  char& recurred = m.recurred[static_cast<std::size_t>(layer)];
  KVASIR_CHECK(!recurred && m.arena.layer_at(layer).shape.recurrent);
  recurred = 1;
  m.recurrence.run(m.slices, {layer, recurrent, x, gates, out});
}

void Cache::convolve(int layer, const Recurrent& recurrent, const float* x, float* out) {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.arena.layout.shape.count());
  KVASIR_CHECK(!m.recurred[static_cast<std::size_t>(layer)] && m.arena.layer_at(layer).shape.recurrent);
  m.recurrence.convolve(m.slices, {layer, recurrent, x, nullptr, out});
}

void Cache::commit(int layers) {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open);
  const std::size_t whole = layers < 0 ? m.attended.size() : static_cast<std::size_t>(layers);
  for (std::size_t l = 0; l < whole; ++l) {
    const LayerShape& shape = m.arena.layer_at(static_cast<int>(l)).shape;
    KVASIR_CHECK((m.attended[l] || !shape.attends()) && (m.recurred[l] || !shape.recurrent));
  }
  for (const Slice& s : m.slices) {
    Sequence& sequence = *s.sequence;
    // What was computed with a selection of pages is not what the tokens alone say.
    sequence.exact = std::min(sequence.exact, m.meter().left_out_from(sequence));
    if (layers >= 0) sequence.exact = std::min(sequence.exact, sequence.length);
    if (m.arena.layout.drafts && s.decode && s.count > 1) sequence.marked = sequence.length;
    const std::int64_t sealed = m.sealed_pages(sequence.length);
    sequence.length += s.count;
    for (auto page = static_cast<std::size_t>(sealed); layers < 0 && page < sequence.pages.size(); ++page)
      m.arena.pages.on_seal(sequence.pages[page]);
    sequence.live = true;
  }
  m.open = false;
}

void Cache::abort() {
  Impl& m = *impl_;
  if (!m.open) return;  // a disk that failed has given it up already
  m.open = false;
  for (const Slice& s : m.slices) {
    m.drop_all(s.sequence);
    m.arena.forget_selection(*s.sequence);
    s.sequence->length = 0;
    s.sequence->exact = kAllExact;
    s.sequence->live = true;
    s.sequence->marked = -1;
  }
}

std::size_t Cache::kv_bytes_read(const Sequence& s) const {
  const Layout& l = impl_->arena.layout;
  const std::int64_t sealed = impl_->sealed_pages(s.length);
  std::size_t bytes = impl_->meter().bytes_read(s);
  for (const LayerLayout& layer : l.layers) {
    if (const RecurrentShape& r = layer.shape.recurrent)
      bytes += sizeof(float) * (layer.recurrent.boundary_floats +
                                static_cast<std::size_t>(r.taps - 1) * static_cast<std::size_t>(r.channels));
    if (!layer.attends()) continue;
    const std::int64_t first = layer.first_page(s.length - 1);
    const std::int64_t begin = layer.shape.window > 0 ? std::max<std::int64_t>(0, s.length - layer.shape.window) : 0;
    const std::int64_t raw = s.length - std::max(begin, sealed * kPageTokens);
    const auto heads = static_cast<std::size_t>(layer.shape.kv_heads);
    if (layer.shape.window > 0 || s.select.dense())
      bytes += static_cast<std::size_t>(std::max<std::int64_t>(0, sealed - first)) * heads *
               (layer.sealed.k_bytes + layer.sealed.v_bytes);
    bytes += static_cast<std::size_t>(raw) * heads * ((layer.raw.k_bytes + layer.raw.v_bytes) / kPageTokens);
    if (!s.borrowed) continue;
    const std::int64_t seen =
        layer.shape.window > 0 ? std::max<std::int64_t>(0, s.text_length() - layer.shape.window) : 0;
    const auto pages = s.borrowed->pages();
    const auto in_sight = std::count_if(pages.begin(), pages.end(),
                                        [&](const BorrowedPage& page) { return page.position + page.end > seen; });
    bytes += static_cast<std::size_t>(in_sight) * heads * (layer.sealed.k_bytes + layer.sealed.v_bytes);
  }
  return bytes;
}

std::size_t Cache::recurrent_bytes(std::int64_t n) const {
  Sequence s;
  s.length = n;
  std::size_t bytes = 0;
  visit_states(impl_->arena, s, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

void Cache::set_selection(Sequence* s, const std::string& text) {
  KVASIR_CHECK(!impl_->open);
  impl_->check_handle(s);
  const SelectSpec& own = impl_->arena.layout.select;
  const SelectSpec spec = text.empty() ? own : parse_select(text, "select");
  if (const char* why = spec.refused_in(own))
    throw Error(Code::kBadInput, "'" + text + "' does not suit a cache with '" + own.name + "': " + why, "select");
  if (spec.name != s->select.name) impl_->arena.forget_selection(*s);  // choices that another one made
  s->select = spec;
}

std::int64_t Cache::exact_prompt(const std::string& text, std::int64_t n) const {
  const Layout& l = impl_->arena.layout;
  const SelectSpec spec = text.empty() ? l.select : parse_select(text, "select");
  if (spec.window > 0) n = std::max<std::int64_t>(0, n - spec.window);  // their queries are wanted
  if (!spec.chooses_for_prompts() || spec.dense_layers >= static_cast<int>(l.asked.size())) return n;
  for (std::int64_t p = 0; p < n; p += spec.prompt) {
    // As of the last of them: a page that is sealed in between is chosen, or not, by those behind it.
    const std::int64_t sealed = l.sealed_at(std::min(p + spec.prompt, n) - 1);
    if (sealed > 0 && !cut_blocks(spec, p + 1, sealed * kPageTokens).dense) return p;
  }
  return n;
}

std::string Cache::selection(const Sequence& s) { return s.select.dense() ? std::string() : s.select.name; }

const SelectionStats& Cache::selection_stats(const Sequence& s) const {
  impl_->check_handle(&s);
  return impl_->meter().stats(s);
}

DiskStats Cache::disk_stats() const { return impl_->arena.pages.disk_stats(); }

DeviceStats Cache::device_stats() const {
  const PageDevice* const device = impl_->arena.pages.device();
  return device ? device->stats() : DeviceStats();
}

double Cache::choosing_seconds() const { return impl_->attention.selection().seconds(); }

std::int64_t Cache::exact_tokens(const Sequence& s) { return std::min(s.exact, s.length); }

void Cache::check_integrity() const {
  const Arena& arena = impl_->arena;
  std::vector<std::int32_t> expected(static_cast<std::size_t>(arena.pool.total()), 0);
  for (const auto& s : arena.sequences) {
    KVASIR_CHECK(s->used || (s->pages.empty() && s->length == 0));
    if (!impl_->open) KVASIR_CHECK(static_cast<std::int64_t>(s->pages.size()) == impl_->sealed_pages(s->length));
    for (const auto slot : s->pages) {
      KVASIR_CHECK(slot >= 0 && slot < arena.pool.total());
      ++expected[static_cast<std::size_t>(slot)];
    }
    if (s->borrowed)
      for (const BorrowedPage& page : s->borrowed->pages()) ++expected[static_cast<std::size_t>(page.slot)];
  }
  for (const std::int32_t slot : impl_->adopted) ++expected[static_cast<std::size_t>(slot)];
  arena.pool.check(expected);
}

}  // namespace kvasir::kv
