#include "kv/layout.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "kernel/attention.hpp"
#include "kv/chosen.hpp"
#include "kv/device_folds.hpp"
#include "kv/feedback.hpp"
#include "kv/fold.hpp"
#include "kv/hot_pages.hpp"
#include "kv/shared_groups.hpp"
#include "kv/spec.hpp"

namespace kvasir::kv {
namespace {

static_assert(kernel::kTileTokens == kPageTokens && kernel::kTilePanel == kPanel);

[[noreturn]] void bad_option(const std::string& message, const char* option) {
  throw Error(Code::kBadInput, message, std::string("cache option ") + option);
}

void check_range(std::int64_t value, std::int64_t low, std::int64_t high, const char* option) {
  if (value < low || value > high)
    bad_option(std::to_string(value) + " is outside " + std::to_string(low) + ".." + std::to_string(high), option);
}

void check_recurrent(const RecurrentShape& r) {
  check_range(r.channels, 1, 1 << 24, "channels of a recurrent layer");
  check_range(r.taps, 1, kMostTaps, "taps of a recurrent layer");
  check_range(r.dilation, 1, r.heads > 0 ? 1 : kPageTokens, "dilation of a recurrent layer");
  check_range(r.reach(), 0, kPageTokens, "rows that a recurrent layer's convolution reaches back");
  check_range(r.heads, 0, 65536, "heads of a recurrent layer");
  if (r.heads == 0) return;
  check_range(r.key_heads, 1, r.heads, "key heads of a recurrent layer");
  check_range(r.key_dim, 2, 4096, "key size of a recurrent layer");
  check_range(r.value_dim, 1, 4096, "value size of a recurrent layer");
  if (r.heads % r.key_heads != 0 || r.key_dim % 2 != 0)
    bad_option("expected heads that key heads divide, and an even size of keys", "heads of a recurrent layer");
  const std::int64_t keys = r.forgetting == Forgetting::kByElement ? 0 : std::int64_t{r.key_heads} * r.key_dim;
  check_range(r.channels, std::int64_t{r.heads} * r.value_dim + 2 * keys, 1 << 24, "channels of a recurrent layer");
}

void check_layer(const CacheShape& s, int i) {
  const LayerShape& l = s.at(i);
  if (l.recurrent) check_recurrent(l.recurrent);
  if (!l.attends()) return;
  check_range(l.kv_heads, 1, 65536, "kv_heads");
  check_range(l.query_heads, 1, 65536, "query_heads");
  check_range(l.head_dim, 8, 4096, "head_dim");
  check_range(l.head_dim_v, 8, 4096, "head_dim_v");
  check_range(l.window, 0, std::int64_t{1} << 40, "window of a layer");
  if (l.query_heads % l.kv_heads != 0)
    bad_option(std::to_string(l.query_heads) + " is no multiple of kv_heads = " + std::to_string(l.kv_heads),
               "query_heads");
  if (l.latent && l.head_dim_v > l.head_dim)
    bad_option(
        std::to_string(l.head_dim_v) + " is more than head_dim = " + std::to_string(l.head_dim) + " of a latent layer",
        "head_dim_v");
  check_range(l.chooses, 0, 0, "rows of an index among the layers");
  check_range(l.chosen_by, -1, std::ssize(s.indexes) - 1, "chosen_by");
  if (l.chosen_by >= 0 && l.window != 0) bad_option("a layer that an index chooses for has a window", "chosen_by");
  if (l.kv_of == -1) return;
  check_range(l.kv_of, 0, i - 1, "kv_of");
  const LayerShape& o = s.at(l.kv_of);
  if (o.kv_of != -1 || o.kv_heads != l.kv_heads || o.head_dim != l.head_dim || o.head_dim_v != l.head_dim_v ||
      o.window != l.window || o.latent != l.latent || o.chunked != l.chunked)
    bad_option("layer " + std::to_string(i) + " reads layer " + std::to_string(l.kv_of) +
                   ", which is not a layer of its own with the same KV heads, head sizes and window",
               "kv_of");
}

void check_indexes(const CacheShape& s, const CacheOptions& o) {
  check_range(std::ssize(s.indexes), 0, s.count(), "indexes");
  for (int i = 0; i < static_cast<int>(s.indexes.size()); ++i) {
    const IndexShape& x = s.indexes[static_cast<std::size_t>(i)];
    check_range(x.heads, 1, 65536, "heads of an index");
    check_range(x.dim, 8, 4096, "size of an index's rows");
    if (x.dim % 8 != 0) bad_option(std::to_string(x.dim) + " is no multiple of 8", "size of an index's rows");
    check_range(x.top, 1, std::int64_t{1} << 30, "tokens that an index chooses");
    check_range(x.block, 1, kPageTokens, "tokens that an index chooses at a time");
    if (!std::has_single_bit(static_cast<unsigned>(x.block)) || x.top % x.block != 0)
      bad_option(std::to_string(x.block) + " is no power of two that divides " + std::to_string(x.top),
                 "tokens that an index chooses at a time");
    if (std::none_of(s.layers.begin(), s.layers.end(), [&](const LayerShape& l) { return l.chosen_by == i; }))
      bad_option("index " + std::to_string(i) + " chooses for no layer", "indexes");
  }
  if (!s.indexes.empty() && o.selector && !o.selector->dense())
    bad_option("'" + std::string(o.selector->text()) +
                   "' cannot choose: layers of this model choose the tokens that they read themselves",
               "selector");
}

void check(const CacheShape& s, const CacheOptions& o) {
  check_range(s.count(), 1, 4096, "layers");
  for (int i = 0; i < s.count(); ++i) check_layer(s, i);
  check_indexes(s, o);
  check_range(o.window, 0, 1 << 24, "window");
  check_range(o.residual, -1, 1 << 24, "residual");
  check_range(o.sinks, 0, kPageTokens, "sinks");
  check_range(o.max_sequences, 1, 1 << 16, "max_sequences");
  check_range(o.max_tokens, 0, std::int64_t{1} << 31, "max_tokens");
  check_range(o.step_tokens, 1, 1 << 24, "step_tokens");
  for (const LayerCodecs& e : o.layers)
    if (e.first < 0 || e.last < e.first || e.last >= s.count())
      bad_option("layers " + std::to_string(e.first) + " to " + std::to_string(e.last) +
                     ", expected a range within 0.." + std::to_string(s.count() - 1),
                 "layers");
  if (o.max_tokens == 0 && o.budget_bytes == 0)
    bad_option("neither max_tokens nor budget_bytes is given", "max_tokens");
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

// Appends the blocks of `pages` pages of one layer to a running size.
BlockLayout place(std::size_t* size, std::size_t k_bytes, std::size_t v_bytes, int heads, int pages = 1) {
  const BlockLayout b{*size, k_bytes, v_bytes};
  *size += static_cast<std::size_t>(heads) * static_cast<std::size_t>(pages) * (k_bytes + v_bytes);
  return b;
}

bool has_metric(const CacheOptions& o, std::size_t layer) {
  return layer < o.key_metrics.size() && !o.key_metrics[layer].empty();
}

std::string layer_context(const char* option, int layer) {
  return "cache option " + std::string(option) + (layer < 0 ? "" : " of layer " + std::to_string(layer));
}

void place_recurrent(Layout* l, LayerLayout* layer) {
  const RecurrentShape& s = layer->shape.recurrent;
  if (!s) return;
  RecurrentLayout& r = layer->recurrent;
  const auto states = static_cast<std::size_t>(s.heads) * static_cast<std::size_t>(s.key_dim * s.pitch());
  const auto columns = static_cast<std::size_t>(s.reach()) * static_cast<std::size_t>(s.channels);
  const auto take = [&](std::size_t floats) {
    const std::size_t at = l->recurrent_floats;
    l->recurrent_floats += (floats + 15) / 16 * 16;
    return at;
  };
  r.boundary_floats = states;
  r.columns = take(columns);
  r.boundary = take(states);
  r.rows = take(static_cast<std::size_t>(kPageTokens) * static_cast<std::size_t>(s.row()));
  r.live = take(states);
  if (l->drafts) r.mark = take(states);
}

// Codecs of layer i: the last exception that names it, else those of all layers.
void choose_codecs(const CacheOptions& o, int i, LayerLayout* layer) {
  const LayerShape& s = layer->shape;
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
  layer->v = s.latent ? ks.codec : vs.codec;
  layer->k_params = ks.params;
  layer->v_params = s.latent ? ks.params : vs.params;
}

// Those of the rows of an index: raw keys' of the first layer that it chooses for.
void choose_index_codec(const Layout& l, int index, LayerLayout* layer) {
  const auto of = std::find_if(l.layers.begin(), l.layers.end(),
                               [&](const LayerLayout& other) { return other.shape.chosen_by == index; });
  layer->k = layer->v = raw_codec(*of->k);
}

// Rings of a local layer. From block b on, sealed pages in sight begin at most ceil((w - 1) / 128) before b, and end
// where the raw ones begin, at the earliest ceil(residual / 128) - 1 before b.
void size_rings(const Layout& l, LayerLayout* layer, int extra) {
  layer->raw_ring = l.raw_pages;
  if (layer->local()) {
    const auto seen = static_cast<int>(std::min<std::int64_t>((layer->shape.window - 1 + kPageTokens - 1) / kPageTokens,
                                                              std::max<std::int64_t>(l.memory.pages, 0) + l.raw_pages));
    layer->ring = std::max(0, seen + 1 - (l.residual + kPageTokens - 1) / kPageTokens);
    layer->raw_ring = std::min(l.raw_pages, seen + 1);
    if (layer->ring > 0) layer->ring += extra;
  }
  layer->raw_ring += extra;
}

void place_layer(Layout* l, LayerLayout* layer, const CacheOptions& options, std::size_t* state_bytes) {
  const LayerShape& s = layer->shape;
  const auto dk = static_cast<std::size_t>(s.head_dim);
  const auto dv = static_cast<std::size_t>(s.head_dim_v);
  const auto cap = static_cast<std::size_t>(l->sink_capacity);
  const auto heads = static_cast<std::size_t>(s.kv_heads);
  const std::size_t ek = element_bytes(*layer->k);
  const std::size_t ev = s.latent ? 0 : element_bytes(*layer->v);
  const std::size_t k_bytes = layer->k->k.bytes(s.head_dim, layer->k_params);
  const std::size_t v_bytes = s.latent ? 0 : layer->v->v.bytes(s.head_dim_v, layer->v_params);
  const auto state = [](const Codec& c, int d) { return c.state_bytes ? round64(c.state_bytes(d)) : 0; };
  MemoryPlan& m = l->memory;
  if (layer->local()) {
    layer->sealed = place(&l->local_bytes, k_bytes, v_bytes, s.kv_heads, layer->ring);
  } else {
    layer->sealed = place(&l->page_bytes, k_bytes, v_bytes, s.kv_heads);
    m.k_chunk_bytes += heads * k_bytes;
    m.v_chunk_bytes += heads * v_bytes;
    if (l->selects() && !layer->whole) layer->summary_bytes = l->selector->summary_bytes(s);
    layer->summary_offset = l->summary_bytes;
    l->summary_bytes += heads * layer->summary_bytes;
  }
  layer->raw = place(&l->raw_bytes, kPageTokens * dk * ek, kPageTokens * dv * ev, s.kv_heads, layer->raw_ring);
  layer->sinks = place(&l->sink_bytes, cap * dk * ek, cap * dv * ev, s.kv_heads);
  std::size_t k_state = state(*layer->k, s.head_dim);
  if (const auto at = static_cast<std::size_t>(layer->owner);
      layer->k->feeds_back && !s.latent && (options.plans_metrics || has_metric(options, at))) {
    if (has_metric(options, at)) layer->feedback_offset = k_state;
    k_state += round64(feedback_floats(s.head_dim) * sizeof(float));
  }
  layer->state = place(state_bytes, k_state, s.latent ? 0 : state(*layer->v, s.head_dim_v), s.kv_heads);
}

void place_layers(Layout* l, const CacheOptions& options) {
  const int extra = (options.step_tokens + kPageTokens - 1) / kPageTokens;
  double k_elements = 0, v_elements = 0, k_bits = 0, v_bits = 0;
  MemoryPlan& m = l->memory;
  l->page_bytes = l->summary_bytes = l->local_bytes = l->raw_bytes = l->sink_bytes = l->recurrent_floats = 0;
  m.k_chunk_bytes = m.v_chunk_bytes = m.state_bytes = 0;
  std::size_t blocks = 0;
  for (LayerLayout& layer : l->layers) {
    const auto index = static_cast<int>(&layer - l->layers.data());
    place_recurrent(l, &layer);
    if (layer.owner != index || !layer.attends()) continue;
    const bool read = std::any_of(l->layers.begin(), l->layers.end(),
                                  [&](const LayerLayout& other) { return other.owner == index && &other != &layer; });
    size_rings(*l, &layer, read ? extra : 0);
    place_layer(l, &layer, options, &m.state_bytes);
    const LayerShape& s = layer.shape;
    if (!layer.local()) blocks += 2 * static_cast<std::size_t>(s.kv_heads);
    if (s.chooses > 0) continue;
    k_elements += static_cast<double>(kPageTokens) * s.kv_heads * s.head_dim;
    if (!s.latent) v_elements += static_cast<double>(kPageTokens) * s.kv_heads * s.head_dim_v;
    k_bits += 8.0 * static_cast<double>(layer.sealed.k_bytes) * s.kv_heads;
    v_bits += 8.0 * static_cast<double>(layer.sealed.v_bytes) * s.kv_heads;
  }
  // A shared layer is its owner with query heads of its own.
  for (LayerLayout& layer : l->layers) {
    const LayerShape shape = layer.shape;
    if (shape.kv_of < 0) continue;
    const RecurrentLayout recurrent = layer.recurrent;
    const int asked = layer.asked;
    layer = l->layers[static_cast<std::size_t>(shape.kv_of)];
    layer.asked = asked;
    layer.shape = shape;
    layer.recurrent = recurrent;
    layer.owner = shape.kv_of;
  }
  l->extent_pages = blocks > 0 ? extent_pages(l->page_bytes / blocks) : 1;
  m.chunk_bytes = l->page_bytes + l->summary_bytes;
  m.bytes_per_token = static_cast<double>(m.chunk_bytes) / kPageTokens;
  m.k_bits = k_elements > 0 ? k_bits / k_elements : 0;
  m.v_bits = v_elements > 0 ? v_bits / v_elements : 0;
}

void describe_layers(Layout* l, const CacheOptions& options) {
  for (int i = 0; i < l->shape.count(); ++i) {
    LayerLayout layer;
    layer.shape = l->shape.at(i);
    layer.owner = layer.shape.kv_of < 0 || !layer.attends() ? i : layer.shape.kv_of;
    layer.whole = options.whole_windows && layer.shape.window > 0;
    l->recurs = l->recurs || layer.shape.recurrent;
    if (!layer.attends()) {
      l->layers.push_back(layer);
      continue;
    }
    l->attends = true;
    if (layer.shape.chooses > 0)
      choose_index_codec(*l, i - l->model_layers, &layer);
    else
      choose_codecs(options, layer.owner, &layer);
    layer.raw_k = raw_codec(*layer.k);
    layer.raw_v = raw_codec(*layer.v);
    for (const Codec* c : {layer.k, layer.v})
      layer.one_arithmetic = layer.one_arithmetic && (layer.shape.latent || c->lossless || c->packed_prompts);
    l->lossless = l->lossless && layer.k->lossless && layer.v->lossless;
    l->has_window = l->has_window || layer.local();
    if (layer.shape.window == 0 && l->shape.indexes.empty()) {
      layer.asked = static_cast<int>(l->asked.size());
      l->asked.push_back(i);
    }
    l->layers.push_back(layer);
  }
}

// Fills the sizes that depend on memory.tokens.
void size_pool(Layout* l, const CacheOptions& options, int threads) {
  MemoryPlan& m = l->memory;
  m.pages = l->sealed_at(m.tokens - 1);
  place_layers(l, options);
  const auto sequences = static_cast<std::size_t>(options.max_sequences);
  const auto pages = static_cast<std::size_t>(m.pages);
  if (l->disk_memory > 0) {
    m.disk_bytes = product({pages, l->page_bytes});
    m.sealed_bytes = l->disk_memory + product({pages, l->summary_bytes + unit_index_bytes(*l)}) + l->page_bytes;
  } else {
    m.sealed_bytes = product({pages, m.chunk_bytes}) + kReadSlack;
  }
  const PageSelector::Memory selecting =
      l->selects() ? l->selector->memory(*l, options.max_sequences, threads) : PageSelector::Memory();
  m.sealed_bytes += selecting.pages;
  m.local_bytes = product({sequences, l->local_bytes}) + (l->local_bytes > 0 ? kReadSlack : 0);
  m.raw_bytes = product({sequences, l->raw_bytes}) + kReadSlack;
  m.sink_bytes = product({sequences, l->sink_bytes}) + kReadSlack;
  m.recurrent_bytes = product({sequences, l->recurrent_floats, sizeof(float)});
  m.scratch_bytes =
      sizeof(float) * (product({static_cast<std::size_t>(threads), l->worker_floats()}) + l->state_floats() +
                       product({static_cast<std::size_t>(threads), l->recurrent_worker_floats()}) + l->widest_row()) +
      l->index_scratch(l->step_tokens) + selecting.scratch +
      (options.device ? l->device_bytes(options.max_sequences) +
                            sizeof(float) * l->device_prompt_floats(std::min(kPageTokens, l->step_tokens))
                      : 0);
}

}  // namespace

std::size_t product(std::initializer_list<std::size_t> factors) {
  constexpr std::size_t kMost = std::size_t{1} << 58;
  std::size_t n = 1;
  for (const std::size_t f : factors)
    if (__builtin_mul_overflow(n, f, &n) || n > kMost) n = f == 0 ? 0 : kMost;
  return n;
}

int Layout::few_rows() const {
  int rows = 8;
  for (const LayerLayout& layer : layers)
    if (layer.attends()) rows = std::max(rows, layer.group());
  return rows;
}

std::size_t Layout::state_floats_one() const {
  const auto rows = static_cast<std::size_t>(few_rows());
  std::size_t most = 0;
  for (const LayerLayout& layer : layers)
    if (layer.attends())
      most = std::max(most,
                      2 * round_up(rows) + rows * static_cast<std::size_t>(kernel::out_pitch(layer.shape.sum_dim())));
  return most;
}

int Layout::widest_sum() const {
  int most = 0;
  for (const LayerLayout& layer : layers)
    if (layer.attends()) most = std::max(most, layer.shape.sum_dim());
  return most;
}

int Layout::most_heads() const {
  int heads = 0;
  for (const LayerLayout& layer : layers) heads = std::max(heads, layer.shape.kv_heads);
  return heads;
}

std::size_t Layout::index_scratch(int tokens) const {
  if (shape.indexes.empty()) return 0;
  const auto pages = static_cast<std::size_t>((memory.tokens + kPageTokens - 1) / kPageTokens);
  return product({pages, chosen_words(kPageTokens), sizeof(std::uint64_t), static_cast<std::size_t>(tokens)}) +
         product({pages, kPageTokens, sizeof(float), 2, kIndexRows});
}

std::size_t Layout::device_query_floats() const {
  std::size_t widest = 0;
  for (const LayerShape& s : shape.layers) widest = std::max(widest, static_cast<std::size_t>(s.head_dim));
  return static_cast<std::size_t>(few_rows()) * widest;
}

std::size_t Layout::device_bytes(int sequences) const {
  return product({static_cast<std::size_t>(sequences), static_cast<std::size_t>(most_heads()), device_query_floats(),
                  sizeof(float)});
}

std::size_t Layout::device_prompt_floats(int tokens) const {
  std::size_t most = 0;
  for (const LayerLayout& l : layers)
    if (l.attends())
      most = std::max(most, product({static_cast<std::size_t>(l.shape.kv_heads),
                                     away_floats(tokens * l.group(), l.shape.head_dim, l.shape.sum_dim())}));
  return most;
}

std::size_t Layout::state_floats() const {
  return product({static_cast<std::size_t>(most_heads()), static_cast<std::size_t>(max_states()), state_floats_one()});
}

std::size_t Layout::worker_floats() const {
  std::size_t most = 0;
  for (const LayerLayout& layer : layers) {
    if (!layer.attends()) continue;
    const LayerShape& s = layer.shape;
    const bool shares = s.window == 0 && !s.latent;
    for (const bool prompt : {false, true}) {
      FoldScratch scratch;
      most = std::max(most, scratch.place(nullptr, fold_size(layer, prompt ? kItemRows : few_rows(), prompt)));
    }
    FoldScratch together;
    if (shares) most = std::max(most, together.place(nullptr, fold_size(layer, kSharedRows, false)));
    // Sealing, and a page of keys, or of values, as floats for the selector's summary.
    most = std::max({most,
                     query_floats(s) + seal_floats(s.head_dim) + static_cast<std::size_t>(kPageTokens * s.head_dim) +
                         kPageTokens + (selects() ? selector->sealing_floats(s) : 0),
                     seal_floats(s.head_dim_v),
                     static_cast<std::size_t>(kPageTokens * ((s.head_dim_v + kPanel - 1) / kPanel * kPanel))});
  }
  return most + sealing_floats() + kFloatsPerLine;
}

std::size_t Layout::sealing_floats() const {
  if (disk_memory == 0) return 0;
  std::size_t most = 0;
  for (const LayerLayout& layer : layers)
    if (layer.attends()) most = std::max({most, layer.sealed.k_bytes, layer.sealed.v_bytes});
  return round_up((most + kReadSlack) / sizeof(float) + 1);
}

// Queries, keys and values behind the convolution.
std::size_t Layout::recurrent_worker_floats() const {
  std::size_t most = 0;
  for (const LayerLayout& layer : layers)
    if (const RecurrentShape& s = layer.shape.recurrent)
      most = std::max(most,
                      static_cast<std::size_t>(kRecurrentTokens) * static_cast<std::size_t>(2 * s.key_dim + s.pitch()));
  return (most + 15) / 16 * 16;
}

std::size_t Layout::widest_row() const {
  std::size_t most = 0;
  for (const LayerLayout& layer : layers)
    most = std::max(most, static_cast<std::size_t>(layer.shape.recurrent.channels));
  return most;
}

int extent_pages(std::size_t block_bytes) {
  return static_cast<int>(
      std::bit_floor(std::max<std::size_t>(kExtentBytes / std::max<std::size_t>(block_bytes, 1), 1)));
}

Layout make_layout(const CacheShape& shape, const CacheOptions& options, int threads) {
  check(shape, options);
  Layout l;
  l.shape = shape;
  l.model_layers = shape.count();
  l.step_tokens = options.step_tokens;
  for (const IndexShape& x : shape.indexes)
    l.shape.layers.push_back({.kv_heads = 1,
                              .query_heads = x.heads,
                              .head_dim = x.dim,
                              .head_dim_v = 8,
                              .latent = true,
                              .chooses = x.top,
                              .block = x.block});
  l.selector = options.selector;
  l.drafts = options.drafts;
  l.residual = residual_of(options);
  // What goes beyond the capacity keeps everything raw: more blocks than that would never be used.
  if (options.max_tokens > 0)
    l.residual = static_cast<int>(
        std::min<std::int64_t>(l.residual, (options.max_tokens + kPageTokens - 1) / kPageTokens * kPageTokens + 1));
  l.raw_pages = (l.residual - 1 + kPageTokens - 1) / kPageTokens + 1;
  l.sinks = options.sinks;
  l.sink_capacity = (options.sinks + 15) / 16 * 16;
  describe_layers(&l, options);
  if (!options.disk.empty()) {
    place_layers(&l, options);
    const std::size_t least = least_frame_bytes(l, threads);
    if (options.disk_memory < least)
      bad_option(std::to_string(options.disk_memory) + " bytes of memory for pages on a disk, expected at least " +
                     std::to_string(least) + " with " + std::to_string(threads) + " threads",
                 "disk_memory");
    l.disk_memory = options.disk_memory;
  }
  MemoryPlan& m = l.memory;
  if (options.max_tokens > 0) {
    m.tokens = options.max_tokens;
    size_pool(&l, options, threads);
    return l;
  }
  // The largest capacity, in whole pages, that the budget holds.
  m.tokens = kPageTokens;
  size_pool(&l, options, threads);
  std::int64_t low = 0;
  std::int64_t high = static_cast<std::int64_t>(
      std::min(options.budget_bytes / std::max<std::size_t>(m.chunk_bytes, 1) + static_cast<std::size_t>(l.raw_pages),
               std::size_t{1} << 24));
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    m.tokens = middle * kPageTokens;
    size_pool(&l, options, threads);
    if (m.total() <= options.budget_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  m.tokens = (low > 0 ? low : 1) * kPageTokens;
  size_pool(&l, options, threads);
  if (low == 0)
    throw Error(Code::kMemory,
                std::to_string(options.budget_bytes) + " bytes do not hold the windows and one page, which need " +
                    std::to_string(m.total()),
                "cache option budget_bytes");
  return l;
}

int residual_of(const CacheOptions& o) {
  if (o.residual >= 0) return std::max(o.residual, 1);
  return (o.window + kPageTokens - 1) / kPageTokens * kPageTokens + 1;
}

MemoryPlan plan_memory(const CacheShape& shape, const CacheOptions& options, int threads) {
  return make_layout(shape, options, threads).memory;
}

}  // namespace kvasir::kv
