#include "model/recurrent_blocks.hpp"

#include <string>

#include "kv/options.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kRecurrentBlocksMostWidth = 1 << 20, kMostHeads = 1 << 12, kMostSize = 4096;

Convolution convolution(const Names& n, std::string_view name, std::int64_t channels, std::int64_t taps, Bias bias) {
  Convolution c{.channels = channels, .taps = static_cast<int>(taps)};
  c.weight = n.vector(std::string(name) + ".weight", taps);
  c.weight.rows = channels;
  c.weight.transposed = true;
  const Vector b = n.vector(std::string(name) + ".bias", channels);
  if (bias == Bias::kRequired || (bias == Bias::kIfPresent && n.h().has_tensor(b.name))) c.bias = b;
  return c;
}

// One number for each head; files have them in a row or in a column.
Vector per_head(const Names& n, std::string_view name, std::int64_t heads) {
  Vector v = n.vector(name, heads);
  if (heads > 1 && n.h().has_tensor(v.name) && n.h().rows_of(v.name) == heads) {
    v.columns = 1;
    v.rows = heads;
  }
  return v;
}

// ssm.*, the same of all layers.
struct RecurrentBlocksSizes {
  std::int64_t taps, groups, heads, state, inner, head_dim;

  explicit RecurrentBlocksSizes(const Hparams& h)
      : taps(h.integer("ssm.conv_kernel", 1, kv::kMostTaps)),
        groups(h.integer("ssm.group_count", 1, kMostHeads)),
        heads(h.integer("ssm.time_step_rank", 1, kMostHeads)),
        state(h.integer("ssm.state_size", 2, kMostSize)),
        inner(h.integer("ssm.inner_size", 1, kRecurrentBlocksMostWidth)),
        head_dim(inner / heads) {
    if (heads % groups != 0)
      h.unsupported("ssm.time_step_rank", "is " + std::to_string(heads) + ", expected a multiple of ssm.group_count, " +
                                              std::to_string(groups));
    if (inner % heads != 0 || head_dim > kMostSize)
      h.unsupported("ssm.inner_size", "is " + std::to_string(inner) + ", expected a multiple of ssm.time_step_rank, " +
                                          std::to_string(heads) + ", at most " + std::to_string(kMostSize) + " times");
    if (state % 2 != 0) h.unsupported("ssm.state_size", "is odd");
  }
};

}  // namespace

ShortConv short_conv(const Names& n) {
  const std::int64_t dim = n.h().dim();
  const Linear all = n.linear("shortconv.in_proj", 3 * dim, dim);
  ShortConv c{.b = part_of(all, 0, dim), .c = part_of(all, dim, dim), .u = part_of(all, 2 * dim, dim)};
  c.convolution =
      convolution(n, "shortconv.conv", dim, n.h().integer("shortconv.l_cache", 1, kv::kMostTaps), Bias::kNone);
  c.o = n.linear("shortconv.out_proj", dim, dim);
  return c;
}

Delta delta(const Names& n) {
  const Hparams& h = n.h();
  const RecurrentBlocksSizes s(h);
  const std::int64_t keys = s.groups * s.state, channels = 2 * keys + s.inner, dim = h.dim();
  Delta d;
  d.key_heads = static_cast<int>(s.groups);
  d.value_heads = static_cast<int>(s.heads);
  d.d = static_cast<int>(s.state);
  d.dv = static_cast<int>(s.head_dim);
  d.eps = h.rms_eps();
  if (n.has("ssm_in")) {
    d.qkvz = n.linear("ssm_in", channels + s.inner, dim);
  } else {
    d.qkv = n.linear("attn_qkv", channels, dim);
    d.z = n.linear("attn_gate", s.inner, dim);
  }
  if (n.has("ssm_ba")) {
    d.ba = n.linear("ssm_ba", 2 * s.heads, dim);
  } else {
    d.beta = n.linear("ssm_beta", s.heads, dim);
    d.alpha = n.linear("ssm_alpha", s.heads, dim);
  }
  // Few rows, which decide what a state forgets.
  d.ba.in_floats = d.beta.in_floats = d.alpha.in_floats = true;
  d.convolution = convolution(n, "ssm_conv1d", channels, s.taps, Bias::kNone);
  d.dt = per_head(n, "ssm_dt.bias", s.heads);
  d.decay = per_head(n, "ssm_a", s.heads);
  d.norm = n.rms("ssm_norm", s.head_dim);
  d.o = n.linear("ssm_out", dim, s.inner);
  return d;
}

// Whether layer l is one.
static bool is_delta(const Hparams& h, int layer) {
  if (h.has("attention.recurrent_layers")) return h.flag_in_layer("attention.recurrent_layers", layer);
  return (layer + 1) % h.integer_or("full_attention_interval", 1, 4096, 4) != 0;
}

static Attention gated_attention(const Names& n) {
  Attention a = attention(n);
  const std::int64_t d = a.d, queries = std::int64_t{a.heads} * d;
  Linear both = n.linear("attn_q", 2 * queries, n.h().dim());
  if (n.has("attn_qkv")) {  // keys and values behind them
    both = n.linear("attn_qkv", 2 * queries + a.k.rows + a.v.rows, n.h().dim());
    a.k = part_of(both, 2 * queries, a.k.rows);
    a.v = part_of(both, 2 * queries + a.k.rows, a.v.rows);
  }
  const auto part = [&](std::int64_t first) {
    Linear l = both;
    l.rows = queries;
    l.cut = {.first = first, .of = both.rows, .run = d, .step = 2 * d};
    return l;
  };
  a.q = part(0);
  a.gate = part(d);
  norm_heads(n, a);
  return a;
}

LayerSpec delta_layer(const Hparams& h, int l, bool tiled, Feed (*feed)(const Names& n)) {
  const Names n(h, l);
  LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("post_attention_norm"), .feed = feed(n)};
  if (l >= h.layers() || !is_delta(h, l)) {  // those that predict further tokens are attention
    layer.mixer = gated_attention(n);
    return layer;
  }
  Delta d = delta(n);
  d.tiled = tiled;
  layer.mixer = d;
  return layer;
}

ModelSpec delta_model(const Hparams& h, bool tiled, Feed (*feed)(const Names& n)) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) m.layers.push_back(delta_layer(h, l, tiled, feed));
  see_pictures(h, true, m);
  return m;
}

Mamba2 mamba2(const Names& n) {
  const Hparams& h = n.h();
  const RecurrentBlocksSizes s(h);
  const std::int64_t channels = s.inner + 2 * s.groups * s.state, dim = h.dim();
  const Linear all = n.linear("ssm_in", s.inner + channels + s.heads, dim);
  Mamba2 m;
  m.heads = static_cast<int>(s.heads);
  m.groups = static_cast<int>(s.groups);
  m.head_dim = static_cast<int>(s.head_dim);
  m.state = static_cast<int>(s.state);
  m.z = part_of(all, 0, s.inner);
  m.x = part_of(all, s.inner, channels);
  m.dt = part_of(all, s.inner + channels, s.heads);
  m.dt.in_floats = true;  // few rows, which decide what a state forgets
  m.convolution = convolution(n, "ssm_conv1d", channels, s.taps, Bias::kIfPresent);
  m.bias = per_head(n, "ssm_dt.bias", s.heads);
  m.decay = per_head(n, "ssm_a", s.heads);
  m.skip = per_head(n, "ssm_d", s.heads);
  if (n.has("ssm_norm")) {
    if (s.inner % s.groups != 0)
      h.unsupported("ssm.inner_size", "is no multiple of ssm.group_count, " + std::to_string(s.groups));
    m.norm = n.rms("ssm_norm", s.inner / s.groups);
    m.norm.weight.rows = s.groups;
  }
  m.o = n.linear("ssm_out", dim, s.inner);
  return m;
}

Mamba mamba(const Names& n) {
  const Hparams& h = n.h();
  const std::int64_t channels = h.integer("ssm.inner_size", 1, kRecurrentBlocksMostWidth);
  const std::int64_t state = h.integer("ssm.state_size", 2, kMostSize);
  const std::int64_t rank = h.integer("ssm.time_step_rank", 1, kRecurrentBlocksMostWidth), dim = h.dim();
  if (state % 2 != 0) h.unsupported("ssm.state_size", "is odd");
  Mamba m;
  m.channels = static_cast<int>(channels);
  m.state = static_cast<int>(state);
  const Linear in = n.linear("ssm_in", 2 * channels, dim), made = n.linear("ssm_x", rank + 2 * state, channels);
  m.x = part_of(in, 0, channels);
  m.z = part_of(in, channels, channels);
  m.convolution =
      convolution(n, "ssm_conv1d", channels, h.integer("ssm.conv_kernel", 1, kv::kMostTaps), Bias::kIfPresent);
  m.t = part_of(made, 0, rank);
  m.k = part_of(made, rank, state);
  m.q = part_of(made, rank + state, state);
  m.dt = n.linear("ssm_dt", channels, rank, Bias::kRequired);
  // Small beside the others, and they decide what a state forgets.
  m.t.in_floats = m.k.in_floats = m.q.in_floats = m.dt.in_floats = true;
  const bool plain = h.flag_or("ssm.dt_b_c_rms", false);
  const auto norm = [&](const char* name, std::int64_t width) {
    if (n.has(name)) return n.rms(name, width);
    if (!plain) return Norm{};
    return Norm{NormKind::kRms, width, static_cast<float>(h.number_or("ssm.dt_b_c_rms_epsilon", 1e-6))};
  };
  m.t_norm = norm("ssm_dt_norm", rank);
  m.k_norm = norm("ssm_b_norm", state);
  m.q_norm = norm("ssm_c_norm", state);
  m.decay = n.vector("ssm_a", state);
  m.decay.rows = channels;
  m.decay.transposed = true;
  m.skip = n.vector("ssm_d", channels);
  m.o = n.linear("ssm_out", dim, channels);
  return m;
}

KeyedDelta keyed_delta(const Names& n) {
  const Hparams& h = n.h();
  const std::int64_t heads = width_of(n, "ssm_beta", h.heads(n.layer())), dim = h.dim();
  const std::int64_t size = h.integer("kda.head_dim", 2, kMostSize), all = heads * size;
  if (size % 2 != 0) h.unsupported("kda.head_dim", "is odd");
  const std::int64_t taps = h.integer("ssm.conv_kernel", 1, kv::kMostTaps);
  KeyedDelta d;
  d.heads = static_cast<int>(heads);
  d.d = d.dv = static_cast<int>(size);
  d.eps = 1e-6f;
  if (n.has("attn_qkv")) {
    d.qkv = n.linear("attn_qkv", 3 * all, dim);
  } else {
    d.q = n.linear("attn_q", all, dim);
    d.k = n.linear("attn_k", all, dim);
    d.v = n.linear("attn_v", all, dim);
  }
  d.beta = n.linear("ssm_beta", heads, dim);
  const auto make = [&](const char* first, const char* second, Linear* down, Linear* up) {
    if (!n.has(second)) {
      *up = n.linear(first, all, dim);
      return;
    }
    const std::int64_t low = width_of(n, first, size);
    *down = n.linear(first, low, dim);
    *up = n.linear(second, all, low);
  };
  make("ssm_f_a", "ssm_f_b", &d.a_down, &d.a);
  make(n.has("ssm_g_a") ? "ssm_g_a" : "attn_gate", "ssm_g_b", &d.z_down, &d.z);
  d.beta.in_floats = true;  // few rows, which decide what a state learns
  d.q_convolution = convolution(n, "ssm_conv1d_q", all, taps, Bias::kNone);
  d.k_convolution = convolution(n, "ssm_conv1d_k", all, taps, Bias::kNone);
  d.v_convolution = convolution(n, "ssm_conv1d_v", all, taps, Bias::kNone);
  d.dt = n.vector("ssm_dt.bias", all);
  d.decay = per_head(n, "ssm_a", heads);
  d.norm = n.rms("ssm_norm", size);
  d.o = n.linear("attn_output", dim, all);
  return d;
}

}  // namespace kvasir::model
