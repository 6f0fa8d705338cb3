#include "kvasir/kv_cache.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "api/guard.hpp"
#include "base/hash.hpp"
#include "base/team.hpp"
#include "device/open.hpp"
#include "kv/cache.hpp"
#include "kv/page.hpp"
#include "kv/share_policy.hpp"
#include "kv/spec.hpp"

namespace kvasir {
namespace {

void require(bool fine, const char* function, const std::string& expectation) {
  if (!fine) throw std::invalid_argument(std::string(function) + ": " + expectation);
}

kv::CacheShape shape_of(std::span<const KvLayer> layers) {
  require(!layers.empty(), "KvCache", "layers are none, expected at least one");
  kv::CacheShape shape;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const KvLayer& l = layers[i];
    const int dv = l.head_dim_v == 0 ? l.head_dim : l.head_dim_v;
    const auto expect = [&](bool fine, const char* what) {
      require(fine, "KvCache", fmt::format("layers[{}].{}", i, what));
    };
    expect(l.kv_heads > 0, "kv_heads is not above 0");
    expect(l.query_heads > 0 && l.query_heads % l.kv_heads == 0, "query_heads is no multiple of kv_heads");
    expect(l.head_dim > 0 && l.head_dim % 8 == 0, "head_dim is no multiple of 8");
    expect(dv > 0 && dv % 8 == 0, "head_dim_v is no multiple of 8");
    expect(l.window >= 0, "window is negative");
    shape.layers.push_back({.kv_heads = l.kv_heads,
                            .query_heads = l.query_heads,
                            .head_dim = l.head_dim,
                            .head_dim_v = dv,
                            .window = l.window});
  }
  return shape;
}

kv::CacheOptions kv_cache_options_of(const kv::CacheShape& shape, const KvCacheOptions& o) {
  require(o.max_tokens > 0, "KvCache", fmt::format("max_tokens is {}, expected more than 0", o.max_tokens));
  require(o.max_sequences > 0, "KvCache", fmt::format("max_sequences is {}, expected more than 0", o.max_sequences));
  require(o.step_tokens > 0, "KvCache", fmt::format("step_tokens is {}, expected more than 0", o.step_tokens));
  require(o.threads >= 1 && o.threads <= 512, "KvCache", fmt::format("threads is {}, expected 1 to 512", o.threads));
  const kv::CodecPair pair = kv::parse_pair(o.codecs, "codecs");
  kv::CacheOptions c;
  c.k_codec = pair.k;
  c.v_codec = pair.v;
  if (const double share = kv::share_of(o.codecs); share > 0)
    c.layers = kv::share_out(shape, std::vector<double>(shape.layers.size(), 1.0), share);
  c.window = o.window;
  c.residual = o.residual;
  c.sinks = o.sinks;
  c.max_tokens = o.max_tokens;
  c.max_sequences = o.max_sequences;
  c.step_tokens = o.step_tokens;
  return c;
}

kv::CacheOptions with_device(kv::CacheOptions o, const std::string& name) {
  if (!name.empty() && name != "cpu") o.device = device::open_pages(name, {});
  return o;
}

// In front of the bytes of a saved sequence.
struct SavedHead {
  char magic[8] = {'K', 'V', 'S', 'E', 'Q', 0, 0, 1};
  std::uint64_t identity = 0;  // of layers, codecs, window and sinks
  std::int64_t tokens = 0;
  std::uint64_t tail_bytes = 0;
  std::uint64_t page_bytes = 0;
  std::int64_t pages = 0;
  std::uint64_t hash = 0;  // of everything behind the head
};

}  // namespace

struct KvCache::Impl {
  Impl(std::span<const KvLayer> layers, const KvCacheOptions& options)
      : team(options.threads),
        cache(team, shape_of(layers), with_device(kv_cache_options_of(shape_of(layers), options), options.device)) {
    const kv::CacheOptions o = kv_cache_options_of(cache.shape(), options);
    std::string text = fmt::format("{} {}", o.window, o.sinks);
    if (o.residual >= 0) text += fmt::format(" residual {}", o.residual);
    for (const KvLayer& l : layers)
      text += fmt::format(" {}/{}/{}/{}/{}", l.kv_heads, l.query_heads, l.head_dim, l.head_dim_v, l.window);
    text += kv::codecs_text(kv::layer_runs(o, cache.shape().count()));
    identity = hash_bytes(std::as_bytes(std::span(text)));
    step_tokens = options.step_tokens;
  }

  kv::Sequence& at(KvSequence s, const char* function) const {
    const auto found = sequences.find(s.id());
    require(found != sequences.end(), function,
            fmt::format("sequence {} is not of this cache, or was released", s.id()));
    return *found->second;
  }
  std::uint64_t add(kv::Sequence* s) {
    sequences.emplace(next, s);
    return next++;
  }
  void between_steps(const char* function) const {
    require(!in_step, function, "a step is open, expected commit or abort first");
  }
  void within_step(const char* function) const { require(in_step, function, "no step is open, expected begin first"); }

  Team team;
  kv::Cache cache;
  std::uint64_t identity = 0;
  int step_tokens = 0;
  std::map<std::uint64_t, kv::Sequence*> sequences;
  std::uint64_t next = 1;
  bool in_step = false;
  std::vector<bool> attended;
};

KvCache::KvCache(std::span<const KvLayer> layers, const KvCacheOptions& options)
    : impl_(api::guarded([&] { return std::make_unique<Impl>(layers, options); })) {}
KvCache::~KvCache() = default;
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;

int KvCache::layers() const { return impl_->cache.shape().count(); }

KvSequence KvCache::create() {
  impl_->between_steps("create");
  return KvSequence(api::guarded([&] { return impl_->add(impl_->cache.create()); }));
}

KvSequence KvCache::fork(KvSequence sequence) {
  impl_->between_steps("fork");
  const kv::Sequence& s = impl_->at(sequence, "fork");
  return KvSequence(api::guarded([&] { return impl_->add(impl_->cache.fork(s)); }));
}

void KvCache::release(KvSequence sequence) {
  impl_->between_steps("release");
  impl_->cache.release(&impl_->at(sequence, "release"));
  impl_->sequences.erase(sequence.id());
}

void KvCache::reset() {
  impl_->between_steps("reset");
  for (const auto& [id, s] : impl_->sequences) impl_->cache.release(s);
  impl_->sequences.clear();
}

std::int64_t KvCache::length(KvSequence sequence) const { return kv::Cache::length(impl_->at(sequence, "length")); }

std::int64_t KvCache::sealed_tokens(KvSequence sequence) const {
  return impl_->cache.stats(impl_->at(sequence, "sealed_tokens")).sealed_tokens;
}

void KvCache::truncate(KvSequence sequence, std::int64_t n) {
  impl_->between_steps("truncate");
  kv::Sequence& s = impl_->at(sequence, "truncate");
  require(n >= 0 && n <= kv::Cache::length(s), "truncate",
          fmt::format("{} tokens, expected 0 to {}", n, kv::Cache::length(s)));
  api::guarded([&] { impl_->cache.truncate(&s, n); });
}

bool KvCache::can_truncate(KvSequence sequence, std::int64_t n) const {
  const kv::Sequence& s = impl_->at(sequence, "can_truncate");
  return n >= 0 && n <= kv::Cache::length(s) && impl_->cache.rules().can_truncate(s, n);
}

void KvCache::begin(std::span<const KvSlice> slices) {
  impl_->between_steps("begin");
  require(!slices.empty(), "begin", "slices are none, expected at least one");
  std::vector<kv::Slice> step;
  int row = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const KvSlice& slice = slices[i];
    kv::Sequence& s = impl_->at(slice.sequence, "begin");
    require(slice.count >= 1 && slice.count <= impl_->step_tokens, "begin",
            fmt::format("slices[{}].count is {}, expected 1 to step_tokens, {}", i, slice.count, impl_->step_tokens));
    for (const kv::Slice& other : step)
      require(other.sequence != &s, "begin", fmt::format("slices[{}] is of a sequence that another slice has", i));
    step.push_back({&s, row, slice.count, slice.generated});
    row += slice.count;
  }
  api::guarded([&] { impl_->cache.begin(step); });
  impl_->in_step = true;
  impl_->attended.assign(static_cast<std::size_t>(layers()), false);
}

void KvCache::attend(int layer, const float* q, const float* k, const float* v, float* out, const KvScoring& scoring) {
  impl_->within_step("attend");
  require(layer >= 0 && layer < layers(), "attend", fmt::format("layer {} is not one of {}", layer, layers()));
  require(!impl_->attended[static_cast<std::size_t>(layer)], "attend",
          fmt::format("layer {} was attended in this step", layer));
  require(q && k && v && out, "attend", "q, k, v or out is null");
  require(std::isfinite(scoring.scale) && std::isfinite(scoring.soft_cap), "attend", "scale or soft_cap is not finite");
  const float scale =
      scoring.scale != 0 ? scoring.scale : 1 / std::sqrt(static_cast<float>(impl_->cache.shape().at(layer).head_dim));
  impl_->cache.attend(
      layer, q, k, v, out,
      {.scale = scale, .soft_cap = scoring.soft_cap, .slopes = scoring.slopes, .sink_logits = scoring.sinks});
  impl_->attended[static_cast<std::size_t>(layer)] = true;
}

void KvCache::commit() {
  impl_->within_step("commit");
  for (std::size_t i = 0; i < impl_->attended.size(); ++i)
    require(impl_->attended[i], "commit", fmt::format("layer {} was not attended in this step", i));
  impl_->cache.commit();
  impl_->in_step = false;
}

void KvCache::abort() {
  impl_->within_step("abort");
  impl_->cache.abort();
  impl_->in_step = false;
}

std::vector<std::byte> KvCache::save(KvSequence sequence) const {
  impl_->between_steps("save");
  kv::Cache& cache = impl_->cache;
  const kv::Sequence& s = impl_->at(sequence, "save");
  SavedHead head;
  head.identity = impl_->identity;
  head.tokens = kv::Cache::length(s);
  head.tail_bytes = cache.rules().tail_bytes(head.tokens);
  head.page_bytes = cache.memory().chunk_bytes;
  head.pages = cache.rules().sealed_pages(head.tokens);
  std::vector<std::byte> out(sizeof head + head.tail_bytes);
  if (head.tokens > 0) cache.bytes().save_tail(s, head.tokens, std::span(out).subspan(sizeof head));
  out.reserve(out.size() + static_cast<std::size_t>(head.pages) * head.page_bytes);
  for (std::int64_t p = 0; p < head.pages; ++p)
    for (const std::span<const std::byte> piece : cache.bytes().sealed_page(s, p))
      out.insert(out.end(), piece.begin(), piece.end());
  head.hash = hash_bytes(std::span(out).subspan(sizeof head));
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

KvSequence KvCache::restore(std::span<const std::byte> bytes) {
  impl_->between_steps("restore");
  SavedHead head;
  require(bytes.size() >= sizeof head, "restore", fmt::format("{} bytes are no saved sequence", bytes.size()));
  std::memcpy(&head, bytes.data(), sizeof head);
  require(std::memcmp(head.magic, SavedHead{}.magic, sizeof head.magic) == 0, "restore",
          "the bytes are no saved sequence");
  require(head.identity == impl_->identity, "restore",
          "the sequence was saved by a cache of other layers, codecs, window or sinks");
  const std::span<const std::byte> body = bytes.subspan(sizeof head);
  kv::Cache& cache = impl_->cache;
  require(
      head.tokens >= 0 && head.tokens <= cache.memory().tokens, "restore",
      fmt::format("the sequence has {} tokens, expected at most max_tokens, {}", head.tokens, cache.memory().tokens));
  require(head.pages == cache.rules().sealed_pages(head.tokens) && head.page_bytes == cache.memory().chunk_bytes &&
              head.tail_bytes == cache.rules().tail_bytes(head.tokens) &&
              body.size() == head.tail_bytes + static_cast<std::size_t>(head.pages) * head.page_bytes,
          "restore", "the bytes are cut off, or longer than their head says");
  require(head.hash == hash_bytes(body), "restore", "the bytes are damaged");
  if (head.tokens == 0) return create();
  return KvSequence(api::guarded([&] {
    kv::Sequence* s = cache.bytes().restore(head.tokens, body.first(head.tail_bytes));
    for (std::int64_t p = 0; p < head.pages; ++p)
      cache.bytes().fill_page(
          *s, p, body.subspan(head.tail_bytes + static_cast<std::size_t>(p) * head.page_bytes, head.page_bytes));
    return impl_->add(s);
  }));
}

std::vector<std::span<const std::byte>> KvCache::page(KvSequence sequence, std::int64_t page) const {
  const kv::Sequence& s = impl_->at(sequence, "page");
  const std::int64_t pages = impl_->cache.stats(s).sealed_tokens / kv::kPageTokens;
  require(page >= 0 && page < pages, "page", fmt::format("{} is not one of {} sealed pages", page, pages));
  return impl_->cache.bytes().sealed_page(s, page);
}

KvCacheStats KvCache::stats() const {
  const kv::MemoryPlan& m = impl_->cache.memory();
  KvCacheStats stats{.free_pages = impl_->cache.stats().free_pages,
                     .bytes_per_token = m.bytes_per_token,
                     .k_bits = m.k_bits,
                     .v_bits = m.v_bits,
                     .reserved_bytes = m.total()};
  const kv::DeviceStats d = impl_->cache.stats().device;
  stats.device = d.name, stats.device_lost = d.lost;
  stats.device_pages = d.held_pages, stats.device_groups = d.folded_groups;
  for (const auto& [id, s] : impl_->sequences) {
    stats.tokens += kv::Cache::length(*s);
    stats.sealed_tokens += impl_->cache.stats(*s).sealed_tokens;
  }
  return stats;
}

}  // namespace kvasir
