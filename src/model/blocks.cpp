#include "model/blocks.hpp"

#include <cmath>

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
  part.cut = {first, fused.rows};
  if (part.bias) {
    part.bias.columns = rows;
    part.bias.cut = part.cut;
  }
  return part;
}

namespace {

Attention sizes(const Names& n) {
  const Hparams& h = n.h();
  Attention a;
  a.heads = h.heads(n.layer());
  a.kv_heads = h.kv_heads(n.layer());
  a.d = h.head_dim(n.layer());
  a.dv = h.head_dim_v(n.layer());
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.d));
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

Dense gated(const Names& n, Activation activation) {
  const std::int64_t dim = n.h().dim(), ffn = n.h().ffn(n.layer());
  return {.activation = activation,
          .gate = n.linear("ffn_gate", ffn, dim),
          .up = n.linear("ffn_up", ffn, dim),
          .down = n.linear("ffn_down", dim, ffn)};
}

Dense plain(const Names& n, Activation activation, Bias bias) {
  const std::int64_t dim = n.h().dim(), ffn = n.h().ffn(n.layer());
  return {
      .activation = activation, .up = n.linear("ffn_up", ffn, dim, bias), .down = n.linear("ffn_down", dim, ffn, bias)};
}

ModelSpec around(const Hparams& h, const Norm& output_norm) {
  ModelSpec m{.arch = h.arch(), .dim = h.dim(), .vocab = h.vocab(), .context = h.context()};
  m.embedding.tokens = {"token_embd.weight", h.vocab(), h.dim()};
  m.head.norm = output_norm;
  m.head.output = Names(h).linear(h.has_tensor("output.weight") ? "output" : "token_embd", h.vocab(), h.dim());
  return m;
}

}  // namespace kvasir::model
