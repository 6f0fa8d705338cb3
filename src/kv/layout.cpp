#include "kv/layout.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "kernel/attention.hpp"

namespace kvasir::kv {
namespace {

static_assert(kernel::kTileTokens == kPageTokens && kernel::kTilePanel == kPanel);

[[noreturn]] void bad(const std::string& message, const char* option) {
  throw Error(Code::kBadInput, message, std::string("cache option ") + option);
}

void check_range(std::int64_t value, std::int64_t low, std::int64_t high, const char* option) {
  if (value < low || value > high)
    bad(std::to_string(value) + " is outside " + std::to_string(low) + ".." + std::to_string(high), option);
}

void check(const CacheShape& s, const CacheOptions& o) {
  check_range(s.layers, 1, 4096, "layers");
  check_range(s.kv_heads, 1, 65536, "kv_heads");
  check_range(s.query_heads, 1, 65536, "query_heads");
  check_range(s.head_dim, 8, 4096, "head_dim");
  check_range(s.head_dim_v, 8, 4096, "head_dim_v");
  if (s.query_heads % s.kv_heads != 0)
    bad(std::to_string(s.query_heads) + " is no multiple of kv_heads = " + std::to_string(s.kv_heads), "query_heads");
  check_range(o.window, 0, 1 << 24, "window");
  check_range(o.sinks, 0, kPageTokens, "sinks");
  check_range(o.max_sequences, 1, 1 << 16, "max_sequences");
  check_range(o.max_tokens, 0, std::int64_t{1} << 31, "max_tokens");
  if (o.max_tokens == 0 && o.budget_bytes == 0) bad("neither max_tokens nor budget_bytes is given", "max_tokens");
}

const Codec* codec(const std::string& name, int d, const char* option) {
  const Codec* c = find(codecs(), name);
  if (!c) bad("unknown codec '" + name + "', expected one of: " + names(codecs()), option);
  if (const char* reason = c->refuse(d))
    bad("codec '" + name + "' cannot store heads of size " + std::to_string(d) + ": " + reason, option);
  return c;
}

const Codec* raw_codec(const Codec& c) {
  switch (c.raw_type) {
    case RawType::kF32:
      return find(codecs(), "f32");
    case RawType::kF16:
      return find(codecs(), "f16");
    case RawType::kBf16:
      return find(codecs(), "bf16");
  }
  return nullptr;
}

std::size_t element_bytes(const Codec& c) { return c.raw_type == RawType::kF32 ? 4 : 2; }

// Appends the block of one layer to a running size.
BlockLayout place(std::size_t* size, std::size_t k_bytes, std::size_t v_bytes, int heads) {
  const BlockLayout b{*size, k_bytes, v_bytes};
  *size += static_cast<std::size_t>(heads) * (k_bytes + v_bytes);
  return b;
}

std::size_t round64(std::size_t n) { return (n + 63) / 64 * 64; }

void place_layers(Layout* l, const Codec* k, const Codec* v, std::size_t* state_bytes) {
  const CacheShape& s = l->shape;
  const auto dk = static_cast<std::size_t>(s.head_dim);
  const auto dv = static_cast<std::size_t>(s.head_dim_v);
  const std::size_t ek = element_bytes(*k);
  const std::size_t ev = element_bytes(*v);
  const auto cap = static_cast<std::size_t>(l->sink_capacity);
  MemoryPlan& m = l->memory;
  m.k_page_bytes = k->k.bytes(s.head_dim);
  m.v_page_bytes = v->v.bytes(s.head_dim_v);
  for (int i = 0; i < s.layers; ++i) {
    LayerLayout layer;
    layer.k = k;
    layer.v = v;
    layer.raw_k = raw_codec(*k);
    layer.raw_v = raw_codec(*v);
    layer.sealed = place(&m.chunk_bytes, m.k_page_bytes, m.v_page_bytes, s.kv_heads);
    layer.raw = place(&l->raw_block_bytes, kPageTokens * dk * ek, kPageTokens * dv * ev, s.kv_heads);
    layer.sinks = place(&l->sink_block_bytes, cap * dk * ek, cap * dv * ev, s.kv_heads);
    layer.state =
        place(state_bytes, round64(k->state_bytes(s.head_dim)), round64(v->state_bytes(s.head_dim_v)), s.kv_heads);
    l->layers.push_back(layer);
  }
  m.bytes_per_token = static_cast<double>(m.chunk_bytes) / kPageTokens;
}

// Products of sizes that options and files choose: saturates far above what any machine has, so that sums of a few of
// them are still right and tensor::Buffer refuses them.
std::size_t product(std::initializer_list<std::size_t> factors) {
  constexpr std::size_t kMost = std::size_t{1} << 58;
  std::size_t n = 1;
  for (const std::size_t f : factors)
    if (__builtin_mul_overflow(n, f, &n) || n > kMost) n = f == 0 ? 0 : kMost;
  return n;
}

// Fills the sizes that depend on memory.tokens.
void size_pool(Layout* l, int threads) {
  MemoryPlan& m = l->memory;
  m.pages = l->sealed_at(m.tokens - 1);
  m.sealed_bytes = product({static_cast<std::size_t>(m.pages), m.chunk_bytes}) + kReadSlack;
  m.scratch_bytes =
      sizeof(float) * (product({static_cast<std::size_t>(threads), l->worker_floats()}) + l->decode_state_floats());
}

}  // namespace

std::size_t Layout::decode_state_floats_one() const {
  const auto rows = static_cast<std::size_t>(decode_rows());
  return 2 * ((rows + 15) / 16 * 16) + rows * static_cast<std::size_t>(kernel::out_pitch(shape.head_dim_v));
}

std::size_t Layout::decode_state_floats() const {
  return product(
      {static_cast<std::size_t>(shape.kv_heads), static_cast<std::size_t>(max_states()), decode_state_floats_one()});
}

std::size_t Layout::worker_floats() const {
  const auto rows = static_cast<std::size_t>(std::max(kItemRows, decode_rows()));
  const auto dk = static_cast<std::size_t>(shape.head_dim);
  const auto dv = static_cast<std::size_t>(kernel::out_pitch(shape.head_dim_v));
  const std::size_t panels_v = (dv + kPanel - 1) / kPanel * kPanel;
  const std::size_t tiles = kPageTokens * (dk + panels_v);
  const std::size_t prefill = rows * (kPageTokens + 2) + 2 * rows * (dv + 2) + tiles;
  const std::size_t decode_rows_n = static_cast<std::size_t>(decode_rows()) * kGroupPages;
  const std::size_t decode = decode_rows_n * (kPageTokens + 2 + dv);
  // q, ends, and slack for the alignment of up to 16 pieces
  return rows * (dk + 1) + std::max(prefill, decode) + 16 * 16;
}

Layout make_layout(const CacheShape& shape, const CacheOptions& options, int threads) {
  check(shape, options);
  Layout l;
  l.shape = shape;
  l.selector = find(selectors(), options.selector);
  if (!l.selector)
    bad("unknown selector '" + options.selector + "', expected one of: " + names(selectors()), "selector");
  l.group = shape.query_heads / shape.kv_heads;
  // A window beyond the capacity keeps everything raw: more blocks than that would never be used.
  const std::int64_t capacity = options.max_tokens > 0 ? options.max_tokens : options.window;
  const auto window = static_cast<int>(std::min<std::int64_t>(options.window, capacity));
  l.raw_pages = (window + kPageTokens - 1) / kPageTokens + 1;
  l.sinks = options.sinks;
  l.sink_capacity = (options.sinks + 15) / 16 * 16;
  const Codec* k = codec(options.k_codec, shape.head_dim, "k_codec");
  const Codec* v = codec(options.v_codec, shape.head_dim_v, "v_codec");
  l.lossless = k->lossless && v->lossless;
  MemoryPlan& m = l.memory;
  place_layers(&l, k, v, &m.state_bytes);
  const auto sequences = static_cast<std::size_t>(options.max_sequences);
  m.raw_bytes = product({sequences, static_cast<std::size_t>(l.raw_pages), l.raw_block_bytes}) + kReadSlack;
  m.sink_bytes = product({sequences, l.sink_block_bytes}) + kReadSlack;
  if (options.max_tokens > 0) {
    m.tokens = options.max_tokens;
    size_pool(&l, threads);
    return l;
  }
  // The largest capacity, in whole pages, that the budget holds.
  std::int64_t low = 0;
  std::int64_t high = static_cast<std::int64_t>(
      std::min(options.budget_bytes / m.chunk_bytes + static_cast<std::size_t>(l.raw_pages), std::size_t{1} << 24));
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    m.tokens = middle * kPageTokens;
    size_pool(&l, threads);
    if (m.total() <= options.budget_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  m.tokens = (low > 0 ? low : 1) * kPageTokens;
  size_pool(&l, threads);
  if (low == 0)
    throw Error(Code::kMemory,
                std::to_string(options.budget_bytes) + " bytes do not hold the windows and one page, which need " +
                    std::to_string(m.total()),
                "cache option budget_bytes");
  return l;
}

MemoryPlan plan_memory(const CacheShape& shape, const CacheOptions& options, int threads) {
  return make_layout(shape, options, threads).memory;
}

}  // namespace kvasir::kv
