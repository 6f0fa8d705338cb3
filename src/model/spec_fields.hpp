// The one walk over a specification. each_field(s, f) calls f(name, member) for every member of a part, in order; what
// walks a whole specification is built on it. Every member is named in a structured binding, so that a new one which is
// forgotten here does not compile.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/spec.hpp"

namespace kvasir::model {

template <class T, class U>
concept Part = std::is_same_v<std::remove_const_t<T>, U>;

template <Part<Cut> S, class F>
void each_field(S& s, F&& f) {
  auto& [first, of, run, step, turns] = s;
  f("first", first);
  f("of", of);
  f("run", run);
  f("step", step);
  if (turns > 0) f("turns", turns);  // the text of others is what it was before there were any
}
template <Part<Vector> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, columns, cut, rows, transposed, bound] = s;
  static_cast<void>(bound);
  f("name", name);
  f("columns", columns);
  f("cut", cut);
  f("rows", rows);
  f("transposed", transposed);
}
template <Part<Table> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, rows, columns, bound] = s;
  static_cast<void>(bound);
  f("name", name);
  f("rows", rows);
  f("columns", columns);
}
template <Part<Linear> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, rows, columns, cut, bias, in_floats, lent, addend, bound] = s;
  static_cast<void>(lent), static_cast<void>(addend), static_cast<void>(bound);
  f("name", name);
  f("rows", rows);
  f("columns", columns);
  f("cut", cut);
  f("bias", bias);
  f("in_floats", in_floats);
}
template <Part<Stack> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, count, rows, columns, cut, bias, flat, transposed, bound] = s;
  static_cast<void>(bound);
  f("name", name);
  f("count", count);
  f("rows", rows);
  f("columns", columns);
  f("cut", cut);
  f("bias", bias);
  f("flat", flat);
  f("transposed", transposed);
}
template <Part<Norm> S, class F>
void each_field(S& s, F&& f) {
  auto& [kind, width, eps, weight, bias] = s;
  f("kind", kind);
  f("width", width);
  f("eps", eps);
  f("weight", weight);
  f("bias", bias);
}
template <Part<Rope> S, class F>
void each_field(S& s, F&& f) {
  auto& [pairs, frequencies, magnitude, factors, most, axes] = s;
  f("pairs", pairs);
  f("frequencies", frequencies);
  f("magnitude", magnitude);
  f("factors", factors);
  if (most > 0) f("most", most);  // as Cut::turns
  if (!axes.empty()) f("axes", axes);
}
template <Part<Temperature> S, class F>
void each_field(S& s, F&& f) {
  auto& [scale, offset, length] = s;
  f("scale", scale);
  f("offset", offset);
  f("length", length);
}
template <Part<Latent> S, class F>
void each_field(S& s, F&& f) {
  auto& [rank, nope, rope, values, down, down_norm, up_k, up_v] = s;
  f("rank", rank);
  f("plain", nope);
  f("rotated", rope);
  f("values", values);
  f("down", down);
  f("down_norm", down_norm);
  f("up_k", up_k);
  f("up_v", up_v);
}
template <Part<Attention> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, kv_heads, d, dv, q, k, v, clamp, q_norm, k_norm, v_norm, v_of_k, norm_after_rope, rope, temperature,
         scale, soft_cap, slopes, sinks, window, chunked, kv_of, gate, gate_activation, latent, o] = s;
  f("heads", heads);
  f("kv_heads", kv_heads);
  f("d", d);
  f("dv", dv);
  f("q", q);
  f("k", k);
  f("v", v);
  f("clamp", clamp);
  f("q_norm", q_norm);
  f("k_norm", k_norm);
  f("v_norm", v_norm);
  f("v_of_k", v_of_k);
  f("norm_after_rope", norm_after_rope);
  f("rope", rope);
  f("temperature", temperature);
  f("scale", scale);
  f("soft_cap", soft_cap);
  f("slopes", slopes);
  f("sinks", sinks);
  f("window", window);
  f("chunked", chunked);
  f("kv_of", kv_of);
  f("gate", gate);
  f("gate_activation", gate_activation);
  f("latent", latent);
  f("o", o);
}
template <Part<Convolution> S, class F>
void each_field(S& s, F&& f) {
  auto& [channels, taps, weight, bias] = s;
  f("channels", channels);
  f("taps", taps);
  f("weight", weight);
  f("bias", bias);
}
template <Part<ShortConv> S, class F>
void each_field(S& s, F&& f) {
  auto& [b, c, u, convolution, o] = s;
  f("b", b);
  f("c", c);
  f("u", u);
  f("convolution", convolution);
  f("o", o);
}
template <Part<Delta> S, class F>
void each_field(S& s, F&& f) {
  auto& [key_heads, value_heads, d, dv, tiled, eps, strength, qkv, z, beta, alpha, qkvz, ba, convolution, dt, decay,
         norm, o] = s;
  f("key_heads", key_heads);
  f("value_heads", value_heads);
  f("d", d);
  f("dv", dv);
  f("tiled", tiled);
  f("eps", eps);
  if (strength != 1) f("strength", strength);  // as Cut::turns
  f("qkv", qkv);
  f("z", z);
  f("beta", beta);
  f("alpha", alpha);
  f("qkvz", qkvz);
  f("ba", ba);
  f("convolution", convolution);
  f("dt", dt);
  f("decay", decay);
  f("norm", norm);
  f("o", o);
}
template <Part<KeyedDelta> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, d, dv, eps, floor, q, k, v, qkv, beta, a_down, a, z_down, z, q_convolution, k_convolution,
         v_convolution, dt, decay, norm, o] = s;
  f("heads", heads);
  f("d", d);
  f("dv", dv);
  f("eps", eps);
  f("floor", floor);
  f("q", q);
  f("k", k);
  f("v", v);
  f("qkv", qkv);
  f("beta", beta);
  f("a_down", a_down);
  f("a", a);
  f("z_down", z_down);
  f("z", z);
  f("q_convolution", q_convolution);
  f("k_convolution", k_convolution);
  f("v_convolution", v_convolution);
  f("dt", dt);
  f("decay", decay);
  f("norm", norm);
  f("o", o);
}
template <Part<Mamba> S, class F>
void each_field(S& s, F&& f) {
  auto& [channels, state, z, x, convolution, t, k, q, t_norm, k_norm, q_norm, dt, decay, skip, o] = s;
  f("channels", channels);
  f("state", state);
  f("z", z);
  f("x", x);
  f("convolution", convolution);
  f("t", t);
  f("k", k);
  f("q", q);
  f("t_norm", t_norm);
  f("k_norm", k_norm);
  f("q_norm", q_norm);
  f("dt", dt);
  f("decay", decay);
  f("skip", skip);
  f("o", o);
}
template <Part<Mamba2> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, groups, head_dim, state, z, x, dt, convolution, bias, decay, skip, norm, o] = s;
  f("heads", heads);
  f("groups", groups);
  f("head_dim", head_dim);
  f("state", state);
  f("z", z);
  f("x", x);
  f("dt", dt);
  f("convolution", convolution);
  f("bias", bias);
  f("decay", decay);
  f("skip", skip);
  f("norm", norm);
  f("o", o);
}
template <Part<NoMixer> S, class F>
void each_field(S&, F&&) {}
template <Part<NoFeed> S, class F>
void each_field(S&, F&&) {}
template <Part<kernel::Xielu> S, class F>
void each_field(S& s, F&& f) {
  auto& [positive, negative, beta, eps] = s;
  f("positive", positive);
  f("negative", negative);
  f("beta", beta);
  f("eps", eps);
}
template <Part<Dense> S, class F>
void each_field(S& s, F&& f) {
  auto& [activation, xielu, gate, up, down] = s;
  f("activation", activation);
  if (activation == Activation::kXielu) f("xielu", xielu);  // as Cut::turns
  f("gate", gate);
  f("up", up);
  f("down", down);
}
template <Part<Routing> S, class F>
void each_field(S& s, F&& f) {
  auto& [count, used, gating, normalise, scale, groups, groups_used, group_best, jitter] = s;
  f("count", count);
  f("used", used);
  f("gating", gating);
  f("normalise", normalise);
  f("scale", scale);
  f("groups", groups);
  f("groups_used", groups_used);
  f("group_best", group_best);
  if (gating == Gating::kSparseMixer) f("jitter", jitter);  // as Cut::turns
}
template <Part<Experts> S, class F>
void each_field(S& s, F&& f) {
  auto& [routing, router, router_norm, router_scale, choice_bias, weight_scales, weigh_inputs, activation, gate, up,
         down, shared, shared_gate, into, out] = s;
  f("routing", routing);
  f("router", router);
  f("router_norm", router_norm);
  f("router_scale", router_scale);
  f("choice_bias", choice_bias);
  f("weight_scales", weight_scales);
  f("weigh_inputs", weigh_inputs);
  f("activation", activation);
  f("gate", gate);
  f("up", up);
  f("down", down);
  f("shared", shared);
  f("shared_gate", shared_gate);
  f("into", into);
  f("out", out);
}
template <Part<DenseAndExperts> S, class F>
void each_field(S& s, F&& f) {
  auto& [dense, dense_post, experts, experts_norm, experts_post] = s;
  f("dense", dense);
  f("dense_post", dense_post);
  f("experts", experts);
  f("experts_norm", experts_norm);
  f("experts_post", experts_post);
}
template <Part<LayerInput> S, class F>
void each_field(S& s, F&& f) {
  auto& [gate, activation, out, post] = s;
  f("gate", gate);
  f("activation", activation);
  f("out", out);
  f("post", post);
}
template <Part<LayerInputs> S, class F>
void each_field(S& s, F&& f) {
  auto& [tokens, projection, norm, scale] = s;
  f("tokens", tokens);
  f("projection", projection);
  f("norm", norm);
  f("scale", scale);
}
template <Part<LayerSpec> S, class F>
void each_field(S& s, F&& f) {
  auto& [norm, mixer, beside, post_mixer, feed_norm, feed, post_feed, input, residual_scale, parallel, output_scale,
         norm_of_sums, post_sum, second, end_norm, weights_of] = s;
  f("norm", norm);
  f("mixer", mixer);
  f("beside", beside);
  f("post_mixer", post_mixer);
  f("feed_norm", feed_norm);
  f("feed", feed);
  f("post_feed", post_feed);
  f("input", input);
  f("residual_scale", residual_scale);
  f("parallel", parallel);
  f("output_scale", output_scale);
  f("norm_of_sums", norm_of_sums);
  if (post_sum) f("post_sum", post_sum);  // as Cut::turns
  if (second != Second::kNone) f("second", second);
  if (end_norm) f("end_norm", end_norm);
  if (weights_of >= 0) f("weights_of", weights_of);
}
template <Part<Join> S, class F>
void each_field(S& s, F&& f) {
  auto& [norm, state_norm, both] = s;
  f("norm", norm);
  f("state_norm", state_norm);
  f("both", both);
}
template <Part<Embedding> S, class F>
void each_field(S& s, F&& f) {
  auto& [tokens, scale, positions, types, norm, layers, join, second] = s;
  f("tokens", tokens);
  f("scale", scale);
  f("positions", positions);
  f("types", types);
  f("norm", norm);
  f("layers", layers);
  if (join) f("join", join);  // the text of models without one is what it was before there were any
  if (second) f("second", second);
}
template <Part<Head> S, class F>
void each_field(S& s, F&& f) {
  auto& [norm, output, scale, soft_cap] = s;
  f("norm", norm);
  f("output", output);
  f("scale", scale);
  f("soft_cap", soft_cap);
}
template <Part<Rank> S, class F>
void each_field(S& s, F&& f) {
  auto& [dense, act, norm, output, pooling] = s;
  f("dense", dense);
  if (act != Rank::Act::kTanh) f("act", act);  // as Cut::turns
  if (norm) f("norm", norm);
  f("output", output);
  if (pooling != Pooling::kCls) f("pooling", pooling);
}
template <Part<Projection> S, class F>
void each_field(S& s, F&& f) {
  auto& [linear, tanh] = s;
  f("linear", linear);
  f("tanh", tanh);
}
template <Part<ModelSpec> S, class F>
void each_field(S& s, F&& f) {
  auto& [arch, dim, vocab, context, embedding, ropes, layers, head, causal, pooling, rank, projections, deep, orders,
         adapters] = s;
  static_cast<void>(orders), static_cast<void>(adapters);
  f("arch", arch);
  f("dim", dim);
  f("vocab", vocab);
  f("context", context);
  f("embedding", embedding);
  f("ropes", ropes);
  f("layers", layers);
  f("head", head);
  f("causal", causal);
  f("pooling", pooling);
  f("rank", rank);
  if (!projections.empty()) f("projections", projections);  // as Cut::turns
  if (deep > 0) f("deep", deep);                            // as Cut::turns
}

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsVariant = false;
template <class... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;

template <class T>
bool present(const T& part) {
  if constexpr (requires { static_cast<bool>(part); })
    return static_cast<bool>(part);
  else
    return true;
}

// Calls f for every `Wanted` (Linear, Vector, Table, Norm …) within `part`, in order. A Wanted is entered too: a Linear
// has a Vector. Absent ones are passed over.
template <class Wanted, class S, class F>
void for_each(S& part, F&& f) {
  using T = std::remove_const_t<S>;
  if constexpr (kIsVector<T>) {
    for (auto& x : part) for_each<Wanted>(x, f);
  } else if constexpr (kIsVariant<T>) {
    std::visit([&](auto& x) { for_each<Wanted>(x, f); }, part);
  } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
    if constexpr (std::is_same_v<T, Wanted>) {
      if (present(part)) f(part);
    }
    each_field(part, [&](const char*, auto& member) { for_each<Wanted>(member, f); });
  }
}

// A tensor that a specification reads, once however many parts of it are used.
struct TensorSpec {
  enum class Use { kMatrix, kTable, kVector };
  std::string name;
  std::int64_t rows, columns;  // rows of all its matrices
  Use use;                     // a table that is a matrix as well is a matrix
  std::int64_t count = 1;      // of matrices behind each other; more than 1: the tensor has three dimensions
  bool in_floats = false;      // a matrix that is multiplied in floats

  // As GGUF gives it, columns first.
  std::vector<std::int64_t> shape() const {
    if (count > 1) return {columns, rows / count, count};
    return rows == 1 ? std::vector{columns} : std::vector{columns, rows};
  }
};
std::vector<TensorSpec> tensors_of(const ModelSpec& spec);

// Everything but what is bound, one member a line. Two specifications have one text if, and only if, they compute the
// same from the same tensors: the store's fingerprint hashes it.
std::string to_text(const ModelSpec& spec);
// Of one layer in one line, without the names of its tensors: for people.
std::string summary_of(const LayerSpec& layer, const ModelSpec& spec);

}  // namespace kvasir::model
