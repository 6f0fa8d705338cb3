#include "kv/layout.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "kernel/attention.hpp"
#include "kv/spec.hpp"

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
  for (const LayerCodecs& e : o.layers)
    if (e.first < 0 || e.last < e.first || e.last >= s.layers)
      bad("layers " + std::to_string(e.first) + " to " + std::to_string(e.last) + ", expected a range within 0.." +
              std::to_string(s.layers - 1),
          "layers");
  if (o.max_tokens == 0 && o.budget_bytes == 0) bad("neither max_tokens nor budget_bytes is given", "max_tokens");
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

std::string layer_context(const char* option, int layer) {
  return "cache option " + std::string(option) + (layer < 0 ? "" : " of layer " + std::to_string(layer));
}

// Codecs of layer i: the last exception that names it, else those of all layers.
void choose_codecs(const CacheShape& s, const CacheOptions& o, int i, LayerLayout* layer) {
  const std::string* k = &o.k_codec;
  const std::string* v = &o.v_codec;
  bool exception = false;
  for (const LayerCodecs& e : o.layers) {
    if (i < e.first || i > e.last) continue;
    k = &e.k_codec;
    v = &e.v_codec;
    exception = true;
  }
  const CodecSpec ks = parse_codec(*k, s.head_dim, Side::kKeys, layer_context("k_codec", exception ? i : -1));
  const CodecSpec vs = parse_codec(*v, s.head_dim_v, Side::kValues, layer_context("v_codec", exception ? i : -1));
  layer->k = ks.codec;
  layer->v = vs.codec;
  layer->k_params = ks.params;
  layer->v_params = vs.params;
}

void place_layers(Layout* l, const CacheOptions& options, std::size_t* state_bytes) {
  const CacheShape& s = l->shape;
  const auto dk = static_cast<std::size_t>(s.head_dim);
  const auto dv = static_cast<std::size_t>(s.head_dim_v);
  const auto cap = static_cast<std::size_t>(l->sink_capacity);
  const auto heads = static_cast<std::size_t>(s.kv_heads);
  MemoryPlan& m = l->memory;
  for (int i = 0; i < s.layers; ++i) {
    LayerLayout layer;
    choose_codecs(s, options, i, &layer);
    layer.raw_k = raw_codec(*layer.k);
    layer.raw_v = raw_codec(*layer.v);
    const std::size_t ek = element_bytes(*layer.k);
    const std::size_t ev = element_bytes(*layer.v);
    const std::size_t k_bytes = layer.k->k.bytes(s.head_dim, layer.k_params);
    const std::size_t v_bytes = layer.v->v.bytes(s.head_dim_v, layer.v_params);
    const auto state = [](const Codec& c, int d) { return c.state_bytes ? round64(c.state_bytes(d)) : 0; };
    layer.sealed = place(&m.chunk_bytes, k_bytes, v_bytes, s.kv_heads);
    layer.raw = place(&l->raw_block_bytes, kPageTokens * dk * ek, kPageTokens * dv * ev, s.kv_heads);
    layer.sinks = place(&l->sink_block_bytes, cap * dk * ek, cap * dv * ev, s.kv_heads);
    layer.state = place(state_bytes, state(*layer.k, s.head_dim), state(*layer.v, s.head_dim_v), s.kv_heads);
    m.k_chunk_bytes += heads * k_bytes;
    m.v_chunk_bytes += heads * v_bytes;
    l->lossless = l->lossless && layer.k->lossless && layer.v->lossless;
    l->has_basis = l->has_basis || layer.k->k.to_basis;
    l->packed_prompts = l->packed_prompts || layer.v->packed_prompts;
    for (const Codec* c : {layer.k, layer.v})
      l->one_arithmetic = l->one_arithmetic && (c->lossless || c->packed_prompts);
    l->layers.push_back(layer);
  }
  l->extent_pages = extent_pages(m.chunk_bytes / (2 * heads * static_cast<std::size_t>(s.layers)));
  const double rows = static_cast<double>(kPageTokens) * s.layers * s.kv_heads;
  m.bytes_per_token = static_cast<double>(m.chunk_bytes) / kPageTokens;
  m.k_bits = 8 * static_cast<double>(m.k_chunk_bytes) / (rows * s.head_dim);
  m.v_bits = 8 * static_cast<double>(m.v_chunk_bytes) / (rows * s.head_dim_v);
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
  const std::size_t sums = packed_prompts ? rows * dv : 0;
  const std::size_t prefill = rows * (kPageTokens + 2) + 2 * rows * (dv + 2) + sums + tiles;
  const std::size_t decode_rows_n = static_cast<std::size_t>(decode_rows()) * kGroupPages;
  const std::size_t decode = decode_rows_n * (kPageTokens + 2 + dv);
  // q, in both bases, ends, and slack for the alignment of up to 20 pieces
  const std::size_t attention = rows * ((has_basis ? 2 : 1) * dk + 1) + std::max(prefill, decode) + 20 * 16;
  return std::max({attention, seal_floats(shape.head_dim), seal_floats(shape.head_dim_v)});
}

int extent_pages(std::size_t block_bytes) {
  return static_cast<int>(
      std::bit_floor(std::max<std::size_t>(kExtentBytes / std::max<std::size_t>(block_bytes, 1), 1)));
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
  MemoryPlan& m = l.memory;
  place_layers(&l, options, &m.state_bytes);
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
