#include "model/blocks.hpp"

#include <bit>
#include <cmath>
#include <utility>

#include "model/spec_fields.hpp"

namespace kvasir::model {

Vector Names::vector(std::string_view name, std::int64_t columns) const {
  return {.name = prefix_ + std::string(name), .columns = columns};
}

Vector Names::bias_of(std::string_view name, std::int64_t columns, Bias bias) const {
  const Vector v = vector(std::string(name) + ".bias", columns);
  const bool there = bias == Bias::kRequired || (bias == Bias::kIfPresent && h_.has_tensor(v.name));
  return there ? v : Vector{};
}

Linear Names::linear(std::string_view name, std::int64_t rows, std::int64_t columns, Bias bias) const {
  return {.name = prefix_ + std::string(name) + ".weight",
          .rows = rows,
          .columns = columns,
          .bias = bias_of(name, rows, bias)};
}

Norm Names::rms(std::string_view name, std::int64_t width) const {
  if (width == 0) width = h_.dim();
  return {.kind = NormKind::kRms,
          .width = width,
          .eps = h_.rms_eps(),
          .weight = vector(std::string(name) + ".weight", width)};
}

Norm Names::layer_norm(std::string_view name, Bias bias) const {
  return {.kind = NormKind::kLayer,
          .width = h_.dim(),
          .eps = h_.layer_eps(),
          .weight = vector(std::string(name) + ".weight", h_.dim()),
          .bias = bias_of(name, h_.dim(), bias)};
}

Linear part_of(const Linear& fused, std::int64_t first, std::int64_t rows) {
  Linear part = fused;
  part.rows = rows;
  part.cut = {.first = first, .of = fused.rows};
  if (part.bias) {
    part.bias.columns = rows;
    part.bias.cut = part.cut;
  }
  return part;
}

namespace {

// Files that were made of hybrids which transformers 5 saved say of every layer that it has no KV heads: the matrix of
// keys has to.
int kv_heads_of(const Names& n, const Attention& a) {
  const Hparams& h = n.h();
  if (!h.has("ssm.state_size") || h.in_layer("attention.head_count_kv", n.layer(), a.heads, 0) > 0 || !n.has("attn_k"))
    return h.kv_heads(n.layer());
  const auto heads = static_cast<int>(h.rows_of(n.full("attn_k")) / a.d);
  if (heads < 1 || a.heads % heads != 0)
    h.unsupported("attention.head_count_kv", "is 0 in a layer whose keys are not of a divisor of attention.head_count");
  return heads;
}

Attention sizes(const Names& n) {
  const Hparams& h = n.h();
  Attention a;
  a.heads = h.heads(n.layer());
  a.d = h.head_dim(n.layer());
  a.kv_heads = kv_heads_of(n, a);
  a.dv = h.head_dim_v(n.layer());
  a.scale = static_cast<float>(h.number_or("attention.scale", 0.0));
  if (a.scale == 0.0f) a.scale = 1.0f / std::sqrt(static_cast<float>(a.d));
  return a;
}

struct Widths {
  std::int64_t q, k, v, o;
  explicit Widths(const Attention& a)
      : q(std::int64_t{a.heads} * a.d),
        k(std::int64_t{a.kv_heads} * a.d),
        v(std::int64_t{a.kv_heads} * a.dv),
        o(std::int64_t{a.heads} * a.dv) {}
};

}  // namespace

Attention attention(const Names& n, Bias qkv, Bias o) {
  if (n.has("attn_qkv")) return fused_attention(n, qkv, o);
  Attention a = sizes(n);
  const Widths w(a);
  a.q = n.linear("attn_q", w.q, n.h().dim(), qkv);
  a.k = n.linear("attn_k", w.k, n.h().dim(), qkv);
  a.v = n.linear("attn_v", w.v, n.h().dim(), qkv);
  a.o = n.linear("attn_output", n.h().dim(), w.o, o);
  return a;
}

Attention fused_attention(const Names& n, Bias qkv, Bias o) {
  Attention a = sizes(n);
  const Widths w(a);
  const Linear all = n.linear("attn_qkv", w.q + w.k + w.v, n.h().dim(), qkv);
  a.q = part_of(all, 0, w.q);
  a.k = part_of(all, w.q, w.k);
  a.v = part_of(all, w.q + w.k, w.v);
  a.o = n.linear("attn_output", n.h().dim(), w.o, o);
  return a;
}

void norm_heads(const Names& n, Attention& a) {
  a.q_norm = n.rms("attn_q_norm", a.d);
  a.k_norm = n.rms("attn_k_norm", a.d);
}

void norm_all_heads(const Names& n, Attention& a) {
  a.q_norm = n.rms("attn_q_norm", a.q.rows);
  a.k_norm = n.rms("attn_k_norm", a.k.rows);
}

void layer_norm_heads(const Names& n, Attention& a) {
  const auto norm = [&](std::string_view name, int heads) {
    if (!n.has(name)) return Norm{};
    Norm x = n.layer_norm(name, Bias::kNone);
    x.width = a.d;
    x.weight.columns = a.d;
    x.weight.rows = heads;
    return x;
  };
  a.q_norm = norm("attn_q_norm", a.heads);
  a.k_norm = norm("attn_k_norm", a.kv_heads);
}

std::int64_t width_of(const Names& n, std::string_view name, std::int64_t fallback) {
  return n.has(name) ? n.h().rows_of(n.full(name)) : fallback;
}

Dense gated(const Names& n, Activation activation, Bias bias, std::int64_t width) {
  const std::int64_t dim = n.h().dim(), ffn = width > 0 ? width : n.h().ffn(n.layer());
  return {.activation = activation,
          .gate = n.linear("ffn_gate", ffn, dim, bias),
          .up = n.linear("ffn_up", ffn, dim, bias),
          .down = n.linear("ffn_down", dim, ffn, bias)};
}

Dense fused_gated(const Names& n, Activation activation) {
  const std::int64_t dim = n.h().dim(), ffn = n.h().ffn(n.layer());
  const Linear both = n.linear("ffn_up", 2 * ffn, dim, Bias::kIfPresent);
  return {.activation = activation,
          .gate = part_of(both, 0, ffn),
          .up = part_of(both, ffn, ffn),
          .down = n.linear("ffn_down", dim, ffn, Bias::kIfPresent)};
}

Dense plain(const Names& n, Activation activation, Bias bias, std::int64_t width) {
  const std::int64_t dim = n.h().dim(), ffn = width > 0 ? width : n.h().ffn(n.layer());
  return {
      .activation = activation, .up = n.linear("ffn_up", ffn, dim, bias), .down = n.linear("ffn_down", dim, ffn, bias)};
}

std::vector<float> linear_slopes(int heads, double most) {
  std::vector<float> slopes;
  const int whole = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  for (int h = 0; h < heads; ++h) {
    const double step = h < whole ? h + 1.0 : h - whole + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-most * step / whole)));
  }
  return slopes;
}

std::int64_t stated_window(const Hparams& h, int layer) {
  return h.has("attention.sliding_window_pattern") ? h.window(layer, 0) : 0;
}

Activation stated_activation(const Hparams& h, Activation fallback) {
  constexpr std::pair<const char*, Activation> kNamed[] = {{"relu", Activation::kRelu},
                                                           {"gelu", Activation::kGeluErf},
                                                           {"gelu_tanh", Activation::kGeluTanh},
                                                           {"silu", Activation::kSilu}};
  const std::string name = h.text_or("activation", "");
  if (name.empty()) return fallback;
  for (const auto& [named, activation] : kNamed)
    if (name == named) return activation;
  h.unsupported("activation", "is '" + name + "', expected relu, gelu, gelu_tanh or silu");
}

ModelSpec around(const Hparams& h, const Norm& output_norm) {
  ModelSpec m{.arch = h.arch(), .dim = h.dim(), .vocab = h.vocab(), .context = h.context()};
  m.embedding.tokens = {"token_embd.weight", h.vocab(), h.dim()};
  m.head.norm = output_norm;
  const char* const output = h.has_tensor("output.weight") ? "output" : "token_embd";
  m.head.output = Names(h).linear(output, h.vocab(), h.dim(), Bias::kIfPresent);
  return m;
}

ModelSpec qwen_model(const Hparams& h, bool head_norms) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, head_norms ? Bias::kIfPresent : Bias::kRequired);
    a.window = stated_window(h, l);
    if (head_norms) norm_heads(n, a);
    m.layers.push_back(normed_before(n, a, gated(n, Activation::kSilu)));
  }
  see_pictures(h, head_norms, m);
  return m;
}

ModelSpec layered(const Hparams& h, const Norm& output_norm, kernel::RopePairs pairs, MakeLayer layer) {
  ModelSpec m = around(h, output_norm);
  for (int l = 0; l < h.layers(); ++l) m.layers.push_back(layer(Names(h, l)));
  m.ropes = {h.rope(pairs, h.head_dim(0))};
  return m;
}

ModelSpec layered(const Hparams& h, kernel::RopePairs pairs, MakeLayer layer) {
  return layered(h, Names(h).rms("output_norm"), pairs, layer);
}

LayerSpec normed_before(const Names& n, const Mixer& mixer, const Feed& feed) {
  return {.norm = n.rms("attn_norm"), .mixer = mixer, .feed_norm = n.rms("ffn_norm"), .feed = feed};
}

LayerSpec normed_behind(const Names& n, const Mixer& mixer, const Feed& feed) {
  return {
      .mixer = mixer, .post_mixer = n.rms("post_attention_norm"), .feed = feed, .post_feed = n.rms("post_ffw_norm")};
}

LayerSpec normed_around(const Names& n, const Mixer& mixer, const Feed& feed) {
  LayerSpec layer = normed_before(n, mixer, feed);
  layer.post_mixer = n.rms("post_attention_norm");
  layer.post_feed = n.rms("post_ffw_norm");
  return layer;
}

LayerSpec layer_normed_before(const Names& n, const Mixer& mixer, const Feed& feed, Bias bias) {
  return {.norm = n.layer_norm("attn_norm", bias),
          .mixer = mixer,
          .feed_norm = n.layer_norm("ffn_norm", bias),
          .feed = feed};
}

LayerSpec layer_normed_beside(const Names& n, const Mixer& mixer, const Feed& feed, Bias bias) {
  return {.norm = n.layer_norm("attn_norm", bias),
          .mixer = mixer,
          .feed_norm = n.layer_norm("attn_norm", bias),
          .feed = feed,
          .parallel = true};
}

LayerSpec norms_of_sums(const Names& n, const Mixer& mixer, const Feed& feed) {
  return {.mixer = mixer,
          .post_mixer = n.layer_norm("attn_output_norm"),
          .feed = feed,
          .post_feed = n.layer_norm("layer_output_norm"),
          .norm_of_sums = true};
}

void scale_as_granite(const Hparams& h, ModelSpec& m) {
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", 1.0));
  const double divisor = h.number_or("logit_scale", 1.0);
  m.head.scale = divisor > 0 ? static_cast<float>(1.0 / divisor) : 1.0f;
}

ModelSpec llama_like_model(const Hparams& h, kernel::RopePairs pairs) {
  return layered(h, pairs, [](const Names& n) { return normed_before(n, attention(n), gated(n, Activation::kSilu)); });
}

void loop(ModelSpec& m, int passes, const Norm& between) {
  const int once = m.layer_count();
  for (int l = once; l < passes * once; ++l) {
    if (l % once == 0) m.layers.back().end_norm = between;
    LayerSpec again = m.layers[static_cast<std::size_t>(l % once)];
    again.end_norm = {};
    again.weights_of = l % once;
    m.layers.push_back(std::move(again));
  }
}

void number_smoothings(ModelSpec& m) {
  int state = 0;
  for_each<Smoothing>(m, [&](Smoothing& s) { s.state = state++; });
}

ModelSpec nemotron_model(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [](const Names& n) {
    return layer_normed_before(n, attention(n), plain(n, Activation::kRelu2, Bias::kIfPresent));
  });
}

void see_pictures(const Hparams& h, bool interleaved, ModelSpec& m) {
  m.ropes = {h.rope_of_places(h.head_dim(0), interleaved)};
  m.deep = static_cast<int>(h.integer_or("n_deepstack_layers", 0, h.layers(), 0));
}

ModelSpec gpt2_model(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  m.embedding.positions = {"position_embd.weight", h.context(), h.dim()};
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, Bias::kRequired, Bias::kRequired);
    a.rope = -1;
    m.layers.push_back(layer_normed_before(
        n, a, plain(n, stated_activation(h, Activation::kGeluTanh), Bias::kRequired, width_of(n, "ffn_up", 0))));
  }
  return m;
}

ModelSpec encoder(const Hparams& h) {
  ModelSpec m{.arch = h.arch(), .dim = h.dim(), .vocab = h.vocab(), .context = h.context()};
  m.causal = false;
  m.embedding.tokens = {"token_embd.weight", h.vocab(), h.dim()};
  if (h.has_tensor("token_types.weight"))
    m.embedding.types = {"token_types.weight", h.rows_of("token_types.weight"), h.dim()};
  m.embedding.norm = Names(h).layer_norm("token_embd_norm");
  return m;
}

Pooling rank_pooling(const Hparams& h, Pooling fallback) {
  const std::int64_t n = h.integer_or("classifier.pooling_type", 0, 2, static_cast<std::int64_t>(fallback));
  return static_cast<Pooling>(n);
}

ModelSpec gemma3_model(const Hparams& h) {
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  ModelSpec m = layered(h, kPairs, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(n.layer(), 6);
    a.rope = a.window > 0 ? 1 : 0;
    if (h.layers() == 62) a.scale = 1.0f / std::sqrt(static_cast<float>(h.dim() / a.heads));  // 27B
    return normed_around(n, a, gated(n, Activation::kGeluTanh));
  });
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 0.0));
  m.ropes.push_back(h.plain_rope(kPairs, h.head_dim(0), h.number_or("rope.freq_base_swa", 10000.0)));
  return m;
}

}  // namespace kvasir::model
