#include "model/latent_blocks.hpp"

#include <cmath>

#include "model/expert_blocks.hpp"
#include "model/hparams.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kLatentBlocksMostWidth = 1 << 16;

// Sizes of a head. Files that say key_length_mla give the cache's row as key_length.
struct Sizes {
  std::int64_t rank, rope, nope, values;
};

// MiniCPM 3's files do not say how wide a head's values are; rows of the matrix that makes keys and values do.
std::int64_t latent_values(const Hparams& h, std::int64_t nope) {
  const Names n(h, 0);
  const std::int64_t each = n.has("attn_kv_b") ? h.rows_of(n.full("attn_kv_b")) / h.heads(0) : 0;
  return each > nope ? each - nope : h.integer("attention.value_length", 1, kLatentBlocksMostWidth);
}

Sizes latent_blocks_sizes(const Hparams& h) {
  Sizes s{};
  s.rank = h.integer("attention.kv_lora_rank", 8, kLatentBlocksMostWidth);
  s.rope = h.integer("rope.dimension_count", 2, kLatentBlocksMostWidth);
  const bool rows = h.has("attention.key_length_mla");
  const char* const key = rows ? "attention.key_length_mla" : "attention.key_length";
  const std::int64_t head = h.integer(key, 1, kLatentBlocksMostWidth);
  s.nope = head - s.rope;
  const char* const value = rows ? "attention.value_length_mla" : "attention.value_length";
  s.values = h.has(value) ? h.integer(value, 1, kLatentBlocksMostWidth) : latent_values(h, s.nope);
  if (s.nope < 1) h.unsupported(key, "is no more than rope.dimension_count");
  if ((s.rank + s.rope) % 8 != 0 || s.rank % 8 != 0)
    h.unsupported("attention.kv_lora_rank", "and its sum with rope.dimension_count are no multiples of 8");
  return s;
}

Stack latent_blocks_stack(const Names& n, std::string_view name, std::int64_t count, std::int64_t rows,
                          std::int64_t columns) {
  return {.name = n.vector(std::string(name) + ".weight", 0).name, .count = count, .rows = rows, .columns = columns};
}

// ln of what YaRN stretches the context by, where the file says how much scores grow with it. Then they do, by
// (1 + multiplier ln)^2, and the rope's own magnitude is 1.
double growth(const Hparams& h) {
  const bool grows =
      h.text_or("rope.scaling.type", "") == "yarn" && h.number_or("rope.scaling.yarn_log_multiplier", 0.0) != 0.0;
  const double factor = h.number_or("rope.scaling.factor", 1.0);
  return grows && factor > 0.0 ? std::log(factor) : 0.0;
}

}  // namespace

Attention latent_attention(const Names& n) {
  const Hparams& h = n.h();
  const Sizes s = latent_blocks_sizes(h);
  Attention a;
  a.heads = h.heads(n.layer());
  a.kv_heads = 1;
  a.d = static_cast<int>(s.rank + s.rope);
  a.dv = static_cast<int>(s.rank);
  Latent& m = a.latent;
  m.rank = static_cast<int>(s.rank);
  m.nope = static_cast<int>(s.nope);
  m.rope = static_cast<int>(s.rope);
  m.values = static_cast<int>(s.values);
  const std::int64_t queries = a.heads * (s.nope + s.rope);
  if (n.has("attn_q_a")) {
    const std::int64_t low = h.integer("attention.q_lora_rank", 1, kLatentBlocksMostWidth);
    m.down = n.linear("attn_q_a", low, h.dim());
    m.down_norm = n.rms("attn_q_a_norm", low);
    a.q = n.linear("attn_q_b", queries, low);
  } else {
    a.q = n.linear("attn_q", queries, h.dim());
  }
  a.k = n.linear("attn_kv_a_mqa", a.d, h.dim());
  a.k_norm = n.rms("attn_kv_a_norm", s.rank);
  if (n.has("attn_k_b")) {
    m.up_k = latent_blocks_stack(n, "attn_k_b", a.heads, s.rank, s.nope);
    m.up_v = latent_blocks_stack(n, "attn_v_b", a.heads, s.values, s.rank);
  } else {
    const std::int64_t both = s.nope + s.values;
    m.up_k = latent_blocks_stack(n, "attn_kv_b", a.heads, s.rank, s.nope);
    m.up_k.cut = {0, both};
    m.up_k.flat = m.up_k.transposed = true;
    m.up_v = latent_blocks_stack(n, "attn_kv_b", a.heads, s.values, s.rank);
    m.up_v.cut = {s.nope, both};
    m.up_v.flat = true;
  }
  a.o = n.linear("attn_output", h.dim(), a.heads * s.values);
  if (const double grows = h.number_or("attention.temperature_scale", 0.0); grows != 0.0)
    a.temperature = {static_cast<float>(grows), 0, h.integer("attention.temperature_length", 1, std::int64_t{1} << 30)};
  const double by = 1.0 + h.number_or("rope.scaling.yarn_log_multiplier", 0.0) * growth(h);
  a.scale = static_cast<float>(by * by / std::sqrt(static_cast<double>(s.nope + s.rope)));
  return a;
}

Feed latent_feed(const Names& n, bool normalise) {
  const Hparams& h = n.h();
  if (!has_experts(h) || n.layer() < h.integer_or("leading_dense_block_count", 0, h.layers(), 0))
    return gated(n, Activation::kSilu);
  const std::int64_t width = h.integer("expert_feed_forward_length", 1, 1 << 24);
  Experts e = experts(n, width);
  // V3's, whose choice has a bias, are scored by sigmoid; files may not say so.
  const bool biased = h.has_tensor(n.vector("exp_probs_b.bias", 0).name);
  read_gating(n, biased ? Gating::kSigmoid : Gating::kSoftmax, normalise, e);
  const std::int64_t shared = h.integer_or("expert_shared_count", 0, 1 << 10, 0);
  if (shared > 0)
    e.shared = shared_expert(n, h.integer_or("expert_shared_feed_forward_length", 1, 1 << 24, shared * width));
  return e;
}

LayerSpec latent_layer(const Hparams& h, int l) {
  const Names n(h, l);
  LayerSpec layer{
      .norm = n.rms("attn_norm"), .mixer = latent_attention(n), .feed_norm = n.rms("ffn_norm"), .feed = latent_feed(n)};
  if (n.has("post_ffw_norm")) layer.post_feed = n.rms("post_ffw_norm");
  return layer;
}

Rope latent_rope(const Hparams& h) {
  Rope rope = h.rope(kernel::RopePairs::kAdjacent, static_cast<int>(latent_blocks_sizes(h).rope));
  if (!h.has(Hparams::kYarnMagnitude)) rope.magnitude /= static_cast<float>(1.0 + 0.1 * growth(h));
  return rope;
}

ModelSpec latent_model(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.ropes = {latent_rope(h)};
  for (int l = 0; l < h.layers(); ++l) m.layers.push_back(latent_layer(h, l));
  return m;
}

static Indexer indexer(const Names& n) {
  const Hparams& h = n.h();
  Indexer x;
  x.heads = static_cast<int>(h.integer("attention.indexer.head_count", 1, 1 << 12));
  x.d = static_cast<int>(h.integer("attention.indexer.key_length", 8, 1 << 12));
  x.top = static_cast<int>(h.integer("attention.indexer.top_k", 1, 1 << 30));
  if (x.d % 8 != 0) h.unsupported("attention.indexer.key_length", "is no multiple of 8");
  if (x.d < h.integer("rope.dimension_count", 2, kLatentBlocksMostWidth))
    h.unsupported("attention.indexer.key_length", "is less than rope.dimension_count");
  x.q = n.linear("indexer.attn_q_b", std::int64_t{x.heads} * x.d,
                 h.integer("attention.q_lora_rank", 1, kLatentBlocksMostWidth));
  x.k = n.linear("indexer.attn_k", x.d, h.dim());
  x.weights = n.linear("indexer.proj", x.heads, h.dim());
  x.weights.in_floats = true;
  x.k_norm = {.kind = NormKind::kLayer,
              .width = x.d,
              .eps = 1e-6f,  // whatever the model's others have
              .weight = n.vector("indexer.k_norm.weight", x.d),
              .bias = n.vector("indexer.k_norm.bias", x.d)};
  return x;
}

ModelSpec indexed_model(const Hparams& h, kernel::RopePairs pairs) {
  constexpr const char* kTypes = "attention.indexer.types";
  ModelSpec m = latent_model(h);
  int rope = 0;
  if (pairs != m.ropes[0].pairs) {
    m.ropes.push_back(m.ropes[0]);
    m.ropes.back().pairs = pairs;
    rope = 1;
  }
  int last = -1;
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    auto& a = std::get<Attention>(m.layers[static_cast<std::size_t>(l)].mixer);
    if (h.has(kTypes) ? h.flag_in_layer(kTypes, l) : n.has("indexer.attn_k")) {
      if (!a.latent.down) h.unsupported("attention.q_lora_rank", "is missing, which the queries of an index need");
      a.indexer = indexer(n);
      a.indexer.rope = rope;
      last = l;
    }
    if (last < 0) h.unsupported(kTypes, "leaves the first layer without an index, and there is none before it");
    a.chosen_by = last;
  }
  return m;
}

}  // namespace kvasir::model
