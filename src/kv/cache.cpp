#include "kv/cache.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kv/attend.hpp"
#include "kv/store.hpp"

namespace kvasir::kv {

struct Cache::Impl {
  Impl(Team& team, const CacheShape& shape, const CacheOptions& options)
      : store(make_layout(shape, options, team.size()), options.max_sequences),
        attention(team, store, options.max_sequences) {
    // One sequence can be as long as the pool allows: its page table never grows in a step.
    for (auto& s : store.sequences) s->pages.reserve(static_cast<std::size_t>(store.layout.memory.pages));
    slices.reserve(static_cast<std::size_t>(options.max_sequences));
    attended.resize(static_cast<std::size_t>(shape.layers));
    memory = store.layout.memory;
  }

  // Sealed pages of a sequence of n tokens.
  std::int64_t sealed_pages(std::int64_t n) const { return store.layout.sealed_at(n - 1); }

  void check_handle(const Sequence* s) const {
    KVASIR_CHECK(s && s->index >= 0 && static_cast<std::size_t>(s->index) < store.sequences.size() &&
                 store.sequences[static_cast<std::size_t>(s->index)].get() == s && s->used);
  }
  void drop_pages(Sequence* s, std::int64_t keep) {
    while (static_cast<std::int64_t>(s->pages.size()) > keep) {
      store.pool.drop(s->pages.back());
      s->pages.pop_back();
    }
  }

  Store store;
  Attention attention;
  MemoryPlan memory;
  std::vector<Slice> slices;   // of the open step
  std::vector<char> attended;  // layers, in the open step
  bool open = false;
};

Cache::Cache(Team& team, const CacheShape& shape, const CacheOptions& options)
    : impl_(std::make_unique<Impl>(team, shape, options)) {}
Cache::~Cache() = default;

const CacheShape& Cache::shape() const { return impl_->store.layout.shape; }
const MemoryPlan& Cache::memory() const { return impl_->memory; }
std::int64_t Cache::length(const Sequence& sequence) { return sequence.length; }
std::int64_t Cache::free_pages() const { return impl_->store.pool.free(); }
std::int64_t Cache::sealed_tokens(const Sequence& s) const { return impl_->sealed_pages(s.length) * kPageTokens; }
std::uint64_t Cache::digest(const Sequence& s) const { return kv::digest(impl_->store, s); }

Sequence* Cache::create() {
  KVASIR_CHECK(!impl_->open);
  for (auto& s : impl_->store.sequences) {
    if (s->used) continue;
    s->used = true;
    s->length = 0;
    return s.get();
  }
  throw Error(Code::kMemory, "all " + std::to_string(impl_->store.sequences.size()) + " sequences are in use",
              "cache option max_sequences");
}

void Cache::release(Sequence* s) {
  KVASIR_CHECK(!impl_->open);
  impl_->check_handle(s);
  impl_->drop_pages(s, 0);
  s->length = 0;
  s->used = false;
}

Sequence* Cache::fork(const Sequence& from) {
  impl_->check_handle(&from);
  Sequence* to = create();
  const Store& store = impl_->store;
  to->length = from.length;
  for (const auto slot : from.pages) {
    impl_->store.pool.share(slot);
    to->pages.push_back(slot);
  }
  if (from.length > 0) {
    for (auto page = impl_->sealed_pages(from.length); page <= (from.length - 1) / kPageTokens; ++page)
      std::memcpy(store.raw_block(*to, page), store.raw_block(from, page), store.layout.raw_block_bytes);
    if (store.layout.sinks > 0)
      std::memcpy(store.sink_block(*to), store.sink_block(from), store.layout.sink_block_bytes);
  }
  return to;
}

bool Cache::can_truncate(const Sequence& s, std::int64_t n) const {
  const std::int64_t keep = impl_->sealed_pages(n);
  const std::int64_t last = n > 0 ? (n - 1) / kPageTokens : -1;
  return keep >= impl_->sealed_pages(s.length) || last < keep || impl_->store.layout.lossless;
}

void Cache::truncate(Sequence* s, std::int64_t n) {
  KVASIR_CHECK(!impl_->open);
  impl_->check_handle(s);
  KVASIR_CHECK(n >= 0 && n <= s->length);
  const Store& store = impl_->store;
  const std::int64_t sealed = impl_->sealed_pages(s->length);
  const std::int64_t keep = impl_->sealed_pages(n);
  // Pages [keep, last] become raw; of them [sealed, last] still are.
  const std::int64_t last = n > 0 ? (n - 1) / kPageTokens : -1;
  if (!can_truncate(*s, n))
    throw Error(Code::kUnsupported,
                "tokens from " + std::to_string(keep * kPageTokens) + " on exist only compressed; a sequence of " +
                    std::to_string(s->length) + " tokens cannot be cut to " + std::to_string(n),
                "truncate");
  for (auto page = keep; page < sealed && page <= last; ++page)
    for (int l = 0; l < store.layout.shape.layers; ++l)
      for (int h = 0; h < store.layout.shape.kv_heads; ++h) store.unseal_raw(l, h, *s, page);
  impl_->drop_pages(s, keep);
  s->length = n;
}

double Cache::packed_share(std::int64_t first, std::int64_t count, bool decode) const {
  const Layout& l = impl_->store.layout;
  double seen = 0;
  double sealed = 0;
  for (std::int64_t p = first; p < first + count; ++p) {
    seen += static_cast<double>(p + 1);
    sealed += static_cast<double>(std::max<std::int64_t>(0, l.sealed_at(p) * kPageTokens - l.sinks));
  }
  double all = 0;
  double packed = 0;
  const auto side = [&](const Codec& codec, int d) {
    all += d;
    if (codec.packed_prompts || (decode && !codec.lossless)) packed += d;
  };
  for (const LayerLayout& layer : l.layers) {
    side(*layer.k, l.shape.head_dim);
    side(*layer.v, l.shape.head_dim_v);
  }
  return seen > 0 ? packed / all * (sealed / seen) : 0;
}

std::int64_t Cache::sealed_pages_at(std::int64_t n) const { return impl_->sealed_pages(n); }

std::vector<std::span<const std::byte>> Cache::sealed_page(const Sequence& s, std::int64_t page) const {
  impl_->check_handle(&s);
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(2 * static_cast<std::size_t>(shape().layers * shape().kv_heads));
  visit_page(impl_->store, s, page, [&](const std::byte* p, std::size_t n) { pieces.emplace_back(p, n); });
  return pieces;
}

void Cache::fill_page(Sequence& s, std::int64_t page, std::span<const std::byte> from) {
  impl_->check_handle(&s);
  KVASIR_CHECK(from.size() == impl_->memory.chunk_bytes);
  visit_page(impl_->store, s, page, [&](std::byte* p, std::size_t n) {
    std::memcpy(p, from.data(), n);
    from = from.subspan(n);
  });
}

std::size_t Cache::tail_bytes(std::int64_t n) const {
  KVASIR_CHECK(n >= 0);
  Sequence s;  // the sizes depend on its length alone
  s.length = n;
  std::size_t bytes = 0;
  visit_raw(impl_->store, s, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

bool Cache::has_tail(const Sequence& s, std::int64_t n) const {
  return n <= s.length && impl_->sealed_pages(n) == impl_->sealed_pages(s.length);
}

void Cache::save_tail(const Sequence& s, std::int64_t n, std::span<std::byte> tail) const {
  impl_->check_handle(&s);
  KVASIR_CHECK(!impl_->open && has_tail(s, n) && tail.size() == tail_bytes(n));
  Sequence shorter;  // where raw pages lie depends on these alone
  shorter.index = s.index;
  shorter.length = n;
  std::byte* to = tail.data();
  visit_raw(impl_->store, shorter, [&](const std::byte* from, std::size_t size) {
    std::memcpy(to, from, size);
    to += size;
  });
}

Sequence* Cache::restore(std::int64_t n, std::span<const std::byte> tail) {
  KVASIR_CHECK(n >= 1);
  if (tail.size() != tail_bytes(n))
    throw Error(Code::kBadInput,
                "has " + std::to_string(tail.size()) + " bytes, expected " + std::to_string(tail_bytes(n)) + " for " +
                    std::to_string(n) + " tokens",
                "tail");
  Store& store = impl_->store;
  const std::int64_t pages = impl_->sealed_pages(n);
  if (n > impl_->memory.tokens || pages > store.pool.free())
    throw Error(Code::kMemory,
                std::to_string(n) + " tokens need " + std::to_string(pages) + " pages, " +
                    std::to_string(store.pool.free()) + " of " + std::to_string(store.pool.total()) + " are free",
                "KV cache");
  Sequence* s = create();
  s->length = n;
  store.grow(s, pages);
  const std::byte* from = tail.data();
  visit_raw(store, *s, [&](std::byte* to, std::size_t size) {
    std::memcpy(to, from, size);
    from += size;
  });
  return s;
}

void Cache::begin(std::span<const Slice> slices) {
  Impl& m = *impl_;
  KVASIR_CHECK(!m.open);
  KVASIR_CHECK(slices.size() <= m.store.sequences.size());
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& s = slices[i];
    m.check_handle(s.sequence);
    KVASIR_CHECK(s.count >= 1 && s.row >= 0);
    for (std::size_t j = 0; j < i; ++j) KVASIR_CHECK(slices[j].sequence != s.sequence);
    const std::int64_t length = s.sequence->length + s.count;
    if (length > m.memory.tokens)
      throw Error(Code::kMemory,
                  "a sequence of " + std::to_string(length) + " tokens exceeds the capacity of " +
                      std::to_string(m.memory.tokens),
                  "KV cache");
    needed += m.sealed_pages(length) - static_cast<std::int64_t>(s.sequence->pages.size());
  }
  if (needed > m.store.pool.free())
    throw Error(Code::kMemory,
                "the step needs " + std::to_string(needed) + " pages, " + std::to_string(m.store.pool.free()) + " of " +
                    std::to_string(m.store.pool.total()) + " are free",
                "KV cache");
  m.attention.reserve(slices);
  m.memory.scratch_bytes = m.attention.scratch_bytes();
  for (const Slice& s : slices) m.store.grow(s.sequence, m.sealed_pages(s.sequence->length + s.count));
  m.slices.assign(slices.begin(), slices.end());
  std::fill(m.attended.begin(), m.attended.end(), 0);
  m.open = true;
}

void Cache::attend(int layer, const float* q, const float* k, const float* v, float* out, float scale) {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.store.layout.shape.layers);
  char& attended = m.attended[static_cast<std::size_t>(layer)];
  KVASIR_CHECK(!attended);
  attended = 1;
  m.attention.run(m.slices, {layer, q, k, v, out, scale});
}

void Cache::commit() {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open);
  for (const char a : m.attended) KVASIR_CHECK(a);
  for (const Slice& s : m.slices) s.sequence->length += s.count;
  m.open = false;
}

void Cache::abort() {
  Impl& m = *impl_;
  KVASIR_CHECK(m.open);
  m.open = false;
  for (const Slice& s : m.slices) {
    m.drop_pages(s.sequence, 0);
    s.sequence->length = 0;
  }
}

std::size_t Cache::kv_bytes_read(const Sequence& s) const {
  const Layout& l = impl_->store.layout;
  const std::int64_t sealed = impl_->sealed_pages(s.length);
  const auto raw_tokens = static_cast<std::size_t>(s.length - sealed * kPageTokens);
  return static_cast<std::size_t>(sealed) * l.memory.chunk_bytes + raw_tokens * (l.raw_block_bytes / kPageTokens);
}

void Cache::check_integrity() const {
  const Store& store = impl_->store;
  std::vector<std::int32_t> expected(static_cast<std::size_t>(store.pool.total()), 0);
  for (const auto& s : store.sequences) {
    KVASIR_CHECK(s->used || (s->pages.empty() && s->length == 0));
    if (!impl_->open) KVASIR_CHECK(static_cast<std::int64_t>(s->pages.size()) == impl_->sealed_pages(s->length));
    for (const auto slot : s->pages) {
      KVASIR_CHECK(slot >= 0 && slot < store.pool.total());
      ++expected[static_cast<std::size_t>(slot)];
    }
  }
  store.pool.check(expected);
}

}  // namespace kvasir::kv
