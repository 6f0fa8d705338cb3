// Inkling 2 of Thinking Machines (transformers inkling2 and inkling2_loop). Attention has no RoPE: scores get learned
// biases by distance, keys and values go through short convolutions before the cache, as do the answers of attention
// and experts, and every row has sinks of its own. Attention residuals by blocks of layers. The loop goes several times
// through its layers, with keys, values and convolutions of their own in every pass (Residuals). Only folders have it.
#include <cmath>

#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "kv/options.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_inkling2 {
namespace {

struct Loop {
  int first = 0, end = 0, passes = 1;
};

Smoothing smoothing(const Names& n, std::string_view name, std::int64_t channels, int taps) {
  Smoothing s{.convolution = {.channels = channels, .taps = taps},
              .scale = 1.0f / std::sqrt(1.0f + static_cast<float>(taps))};
  s.convolution.weight = n.vector(std::string(name) + "_conv.weight", taps);
  s.convolution.weight.rows = channels;
  s.convolution.weight.transposed = true;
  return s;
}

// With taps of each token's own.
Smoothing dynamic(const Names& n, const std::string& name, std::int64_t channels, int taps, int heads) {
  Smoothing s{.convolution = {.channels = channels, .taps = taps},
              .scale = 1.0f / std::sqrt(1.0f + 2.0f * static_cast<float>(taps)),
              .taps = n.linear(name + "_taps", std::int64_t{heads} * taps, n.h().dim()),
              .groups = heads};
  s.convolution.weight = n.vector(name + "_conv.weight", channels);
  s.convolution.weight.rows = taps;
  return s;
}

// Of heads of d, each with weights of its own where it is named.
Norm clip(const Names& n, std::string_view name, int heads, std::int64_t d, double most) {
  Norm norm{.kind = NormKind::kClip, .width = d, .eps = static_cast<float>(most)};
  if (name.empty()) return norm;
  norm.weight = n.vector(name, d);
  norm.weight.rows = heads;
  return norm;
}

Attention attention_of(const Names& n) {
  const Hparams& h = n.h();
  const std::int64_t dim = h.dim();
  const bool local = h.window(n.layer(), 0) > 0;
  Attention a;
  a.heads = h.heads(n.layer());
  a.kv_heads = h.kv_heads(n.layer());
  a.d = local ? static_cast<int>(h.integer("attention.key_length_swa", 8, 1024)) : h.head_dim(n.layer());
  if (a.d % 8 != 0) h.unsupported("attention.key_length_swa", "is no multiple of 8");
  a.dv = a.d;
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.d));
  a.rope = -1;
  a.window = h.window(n.layer(), 0);
  const std::int64_t width = std::int64_t{a.heads} * a.d, kv = std::int64_t{a.kv_heads} * a.d;
  a.q = n.linear("attn_q", width, dim);
  a.k = n.linear("attn_k", kv, dim);
  a.v = n.linear("attn_v", kv, dim);
  a.o = n.linear("attn_output", dim, width);
  a.gate = n.linear("attn_gate", width, dim);
  a.row_sinks = n.linear("attn_row_sinks", a.heads, dim);
  const double most = h.number("attention.clip");
  a.q_norm = clip(n, "attn_q_norm.weight", a.heads, a.d, most);
  a.k_norm = clip(n, "", a.kv_heads, a.d, most);
  a.v_norm = {.kind = NormKind::kRms, .width = a.d, .eps = h.rms_eps()};
  const auto taps = static_cast<int>(h.integer("attention.convolution", 2, kv::kMostTaps));
  a.k_smoothing = local ? smoothing(n, "attn_k", kv, taps) : dynamic(n, "attn_k", kv, taps, a.kv_heads);
  a.v_smoothing = local ? smoothing(n, "attn_v", kv, taps) : dynamic(n, "attn_v", kv, taps, a.kv_heads);
  Distances& d = a.distances;
  d.width = static_cast<int>(h.integer("attention.distance_width", 1, 1024));
  d.extent = local ? a.window : h.integer("attention.distance_extent", 1, 1 << 24);
  d.linear = n.linear("attn_distances", std::int64_t{a.heads} * d.width, dim);
  d.norm = clip(n, "attn_distances_norm.weight", a.heads, d.width, h.number("attention.distance_clip"));
  d.profiles = n.vector("attn_profiles.weight", d.extent);
  d.profiles.rows = d.width;
  if (!local)
    a.temperature = {.scale = static_cast<float>(h.number("attention.temperature_scale")),
                     .offset = 1,
                     .length = h.integer("attention.temperature_length", 1, std::int64_t{1} << 40),
                     .smooth = true};
  return a;
}

MessageGate message_gate(const Names& n, const std::string& name, std::int64_t rank) {
  const std::int64_t dim = n.h().dim();
  MessageGate gate{.eps = n.h().rms_eps(),
                   .down = n.linear(name + "_down", rank, 2 * dim),
                   .forget = n.linear(name + "_forget", dim, rank),
                   .gain = n.linear(name + "_gain", dim, rank)};
  gate.forget.in_floats = gate.gain.in_floats = true;
  return gate;
}

Vector rows_of(const Names& n, std::string_view name, std::int64_t rows) {
  Vector v = n.vector(name, n.h().dim());
  v.rows = rows;
  return v;
}

Residuals residuals_of(const Names& n, int block, const Loop& loop, int pass, bool local) {
  const Hparams& h = n.h();
  const int l = n.layer();
  Residuals r{
      .count = (l + block - 1) / block, .ends = l % block == 0, .feed = n.vector("ffn_mixture.weight", h.dim())};
  if (l > 0) r.mixer = rows_of(n, "attn_mixture.weight", local ? 1 : 3);
  if (!local) r.k_norm = n.rms("attn_k_in_norm"), r.v_norm = n.rms("attn_v_in_norm");
  if (l < loop.first || l >= loop.end) return r;
  r.again = pass > 0 && l == loop.first;
  r.hears = pass > 0;
  r.kept = (loop.end - loop.first) / block - 1;
  r.place = l - loop.first;
  r.messages = rows_of(Names(h), "loop_messages.weight", 2 * (loop.end - loop.first));
  r.kv_messages = rows_of(Names(h), "loop_kv_messages.weight", 2 * (loop.end - loop.first));
  const std::int64_t rank = h.integer("loop.rank", 1, 1 << 24);
  r.q_gate = message_gate(n, "loop_q", rank);
  r.k_gate = message_gate(n, "loop_k", rank);
  r.v_gate = message_gate(n, "loop_v", rank);
  r.feed_gate = message_gate(n, "loop_ffn", rank);
  return r;
}

Loop loop_of(const Hparams& h, int block) {
  if (!h.has("loop.passes")) return {};
  Loop loop{.first = static_cast<int>(h.integer("loop.first", 1, h.layers() - 1)),
            .end = static_cast<int>(h.integer("loop.end", 1, h.layers())),
            .passes = static_cast<int>(h.integer("loop.passes", 1, 64))};
  if (loop.end <= loop.first || loop.first % block != 0 || loop.end % block != 0)
    h.unsupported("loop.end", "and loop.first are not borders of blocks of residual_block layers");
  if (h.layers() + (loop.passes - 1) * (loop.end - loop.first) > 4096)
    h.unsupported("loop.passes", "makes more than 4096 layers");
  return loop;
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.vocab = h.integer("vocabulary", 1, h.vocab());  // rows behind these fill up
  if (m.vocab < h.vocab()) m.head.output = part_of(m.head.output, 0, m.vocab);
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 0.0));
  m.embedding.norm = Names(h).rms("token_embd_norm");
  const auto block = static_cast<int>(h.integer("residual_block", 1, 4096));
  if ((h.layers() + block - 1) / block > kMostStates - 2) h.unsupported("residual_block", "makes too many blocks");
  const Loop loop = loop_of(h, block);
  const auto taps = static_cast<int>(h.integer("attention.convolution", 2, kv::kMostTaps));
  const auto add = [&](int l, int pass) {
    const Names n(h, l);
    Experts e = experts(n, expert_width(h, h.ffn(l)), Activation::kCappedSilu);
    read_gating(n, Gating::kSigmoid, true, e);
    const Attention a = attention_of(n);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = e,
                        .weights_of = pass > 0 ? l : -1,
                        .residuals = residuals_of(n, block, loop, pass, a.window > 0),
                        .mixer_smoothing = smoothing(n, "attn", h.dim(), taps),
                        .feed_smoothing = smoothing(n, "ffn", h.dim(), taps)});
  };
  for (int l = 0; l < loop.end; ++l) add(l, 0);
  for (int pass = 1; pass < loop.passes; ++pass)
    for (int l = loop.first; l < loop.end; ++l) add(l, pass);
  for (int l = loop.end; l < h.layers(); ++l) add(l, 0);
  m.layers.back().residuals.last = Names(h).vector("output_mixture.weight", h.dim());
  number_smoothings(m);
  return m;
}

}  // namespace

const Arch entry{
    .summary = "Inkling 2, also looped (distance biases, convolved keys and values)",
    .describe = describe,
    .hub = {{.types = {"inkling2_text", "inkling2_loop_text"}, .names = hub::kInkling2, .read = hub::read_inkling2}}};

}  // namespace kvasir::model::archs_inkling2
