// The one walk over a specification. each_field(s, f) calls f(name, member) for every member of a part, in order; what
// walks a whole specification is built on it. Every member is named in a structured binding, so that a new one which is
// forgotten here does not compile.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/spec.hpp"

namespace kvasir::model {

template <class T, class U>
concept Part = std::is_same_v<std::remove_const_t<T>, U>;

// For an f that does not ask for names: none are made then, which is most of what a walk would compile to.
struct Unnamed {
  constexpr Unnamed() = default;
  constexpr Unnamed(const char*) {}
};

// Calls f(name, member) for each, with the names in `names`: "a, b, c".
template <class F, class... Members>
void tell_members(F& f, std::string_view names, Members&... members) {
  if constexpr ((std::is_invocable_v<F&, Unnamed, Members&> && ...)) {
    (f(Unnamed(), members), ...);
  } else {
    const auto next = [&] {
      const std::size_t n = std::min(names.find(','), names.size());
      const std::string name(names.substr(0, n));
      names.remove_prefix(std::min(names.size(), n + 2));
      return name;
    };
    (f(next().c_str(), members), ...);
  }
}
#define KVASIR_TELL(f, ...) tell_members(f, #__VA_ARGS__, __VA_ARGS__)

template <Part<Cut> S, class F>
void each_field(S& s, F&& f) {
  auto& [first, of, run, step, turns] = s;
  KVASIR_TELL(f, first, of, run, step);
  if (turns > 0) f("turns", turns);  // the text of others is what it was before there were any
}
template <Part<Vector> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, columns, cut, rows, transposed, bound] = s;
  static_cast<void>(bound);
  KVASIR_TELL(f, name, columns, cut, rows, transposed);
}
template <Part<Table> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, rows, columns, bound] = s;
  static_cast<void>(bound);
  KVASIR_TELL(f, name, rows, columns);
}
template <Part<Linear> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, rows, columns, cut, bias, in_floats, lent, addend, bound] = s;
  static_cast<void>(lent), static_cast<void>(addend), static_cast<void>(bound);
  KVASIR_TELL(f, name, rows, columns, cut, bias, in_floats);
}
template <Part<Stack> S, class F>
void each_field(S& s, F&& f) {
  auto& [name, count, rows, columns, cut, bias, flat, transposed, bound] = s;
  static_cast<void>(bound);
  KVASIR_TELL(f, name, count, rows, columns, cut, bias, flat, transposed);
}
template <Part<Norm> S, class F>
void each_field(S& s, F&& f) {
  auto& [kind, width, eps, weight, bias] = s;
  KVASIR_TELL(f, kind, width, eps, weight, bias);
}
template <Part<Rope> S, class F>
void each_field(S& s, F&& f) {
  auto& [pairs, frequencies, magnitude, factors, most, axes, offset] = s;
  KVASIR_TELL(f, pairs, frequencies, magnitude, factors);
  if (most > 0) f("most", most);  // as Cut::turns
  if (!axes.empty()) f("axes", axes);
  if (offset != 0) f("offset", offset);
}
template <Part<Temperature> S, class F>
void each_field(S& s, F&& f) {
  auto& [scale, offset, length, smooth] = s;
  KVASIR_TELL(f, scale, offset, length);
  if (smooth) f("smooth", smooth);  // as Cut::turns
}
template <Part<Latent> S, class F>
void each_field(S& s, F&& f) {
  auto& [rank, nope, rope, values, down, down_norm, up_k, up_v] = s;
  f("rank", rank);
  f("plain", nope);
  f("rotated", rope);
  KVASIR_TELL(f, values, down, down_norm, up_k, up_v);
}
template <Part<Indexer> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, d, top, rope, q, k, weights, k_norm, block, q_norm, mean, k_rope] = s;
  KVASIR_TELL(f, heads, d, top, rope, q, k, weights, k_norm);
  if (block == 1) return;  // as Cut::turns
  KVASIR_TELL(f, block, q_norm, mean, k_rope);
}
template <Part<Attention> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, kv_heads, d, dv, q, k, v, clamp, q_norm, k_norm, v_norm, v_of_k, norm_after_rope, rope, temperature,
         scale, soft_cap, slopes, sinks, window, chunked, kv_of, gate, gate_activation, latent, indexer, k_smoothing,
         v_smoothing, distances, row_sinks, chosen_by, o] = s;
  KVASIR_TELL(f, heads, kv_heads, d, dv, q, k, v, clamp, q_norm, k_norm, v_norm, v_of_k, norm_after_rope, rope,
              temperature, scale, soft_cap, slopes, sinks, window, chunked, kv_of, gate, gate_activation, latent);
  if (indexer) f("indexer", indexer);  // as Cut::turns
  if (k_smoothing) f("k_smoothing", k_smoothing);
  if (v_smoothing) f("v_smoothing", v_smoothing);
  if (distances) f("distances", distances);
  if (row_sinks) f("row_sinks", row_sinks);
  if (chosen_by >= 0) f("chosen_by", chosen_by);
  f("o", o);
}
template <Part<Convolution> S, class F>
void each_field(S& s, F&& f) {
  auto& [channels, taps, weight, bias, dilation, fixed] = s;
  KVASIR_TELL(f, channels, taps, weight, bias);
  if (dilation != 1) f("dilation", dilation);  // as Cut::turns
  if (!fixed.empty()) f("fixed", fixed);
}
template <Part<Smoothing> S, class F>
void each_field(S& s, F&& f) {
  auto& [convolution, scale, taps, groups, state, alone, silu] = s;
  KVASIR_TELL(f, convolution, scale, taps, groups, state);
  if (alone) f("alone", alone);  // as Cut::turns
  if (silu) f("silu", silu);
}
template <Part<Distances> S, class F>
void each_field(S& s, F&& f) {
  auto& [width, extent, linear, norm, profiles] = s;
  KVASIR_TELL(f, width, extent, linear, norm, profiles);
}
template <Part<MessageGate> S, class F>
void each_field(S& s, F&& f) {
  auto& [eps, down, forget, gain] = s;
  KVASIR_TELL(f, eps, down, forget, gain);
}
template <Part<Residuals> S, class F>
void each_field(S& s, F&& f) {
  auto& [count, mixer, k_norm, v_norm, ends, feed, last, again, hears, kept, place, messages, kv_messages, q_gate,
         k_gate, v_gate, feed_gate] = s;
  KVASIR_TELL(f, count, mixer, k_norm, v_norm, ends, feed, last, again, hears, kept, place, messages, kv_messages,
              q_gate, k_gate, v_gate, feed_gate);
}
template <Part<StreamMixer> S, class F>
void each_field(S& s, F&& f) {
  auto& [count, norm, down, up, inject] = s;
  KVASIR_TELL(f, count, norm, down, up, inject);
}
template <Part<Ngrams> S, class F>
void each_field(S& s, F&& f) {
  auto& [longest, heads, end, multipliers, offsets, sizes, table, key, value, key_norm, query_norm, conv_norm,
         convolution, ids] = s;
  KVASIR_TELL(f, longest, heads, end, multipliers, offsets, sizes, table, key, value, key_norm, query_norm, conv_norm,
              convolution, ids);
}
template <Part<ShortConv> S, class F>
void each_field(S& s, F&& f) {
  auto& [b, c, u, convolution, o] = s;
  KVASIR_TELL(f, b, c, u, convolution, o);
}
template <Part<Delta> S, class F>
void each_field(S& s, F&& f) {
  auto& [key_heads, value_heads, d, dv, tiled, eps, strength, activation, qkv, z, beta, alpha, qkvz, ba, convolution,
         dt, decay, norm, o] = s;
  KVASIR_TELL(f, key_heads, value_heads, d, dv, tiled, eps);
  if (strength != 1) f("strength", strength);  // as Cut::turns
  if (activation != Activation::kSilu) f("activation", activation);
  KVASIR_TELL(f, qkv, z, beta, alpha, qkvz, ba, convolution, dt, decay, norm, o);
}
template <Part<KeyedDelta> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, d, dv, eps, floor, q, k, v, qkv, beta, a_down, a, z_down, z, q_convolution, k_convolution,
         v_convolution, dt, decay, norm, o] = s;
  KVASIR_TELL(f, heads, d, dv, eps, floor, q, k, v, qkv, beta, a_down, a, z_down, z, q_convolution, k_convolution,
              v_convolution, dt, decay, norm, o);
}
template <Part<Mamba> S, class F>
void each_field(S& s, F&& f) {
  auto& [channels, state, z, x, convolution, t, k, q, t_norm, k_norm, q_norm, dt, decay, skip, o] = s;
  KVASIR_TELL(f, channels, state, z, x, convolution, t, k, q, t_norm, k_norm, q_norm, dt, decay, skip, o);
}
template <Part<Mamba2> S, class F>
void each_field(S& s, F&& f) {
  auto& [heads, groups, head_dim, state, z, x, dt, convolution, bias, decay, skip, norm, o] = s;
  KVASIR_TELL(f, heads, groups, head_dim, state, z, x, dt, convolution, bias, decay, skip, norm, o);
}
template <Part<NoMixer> S, class F>
void each_field(S&, F&&) {}
template <Part<NoFeed> S, class F>
void each_field(S&, F&&) {}
template <Part<kernel::Xielu> S, class F>
void each_field(S& s, F&& f) {
  auto& [positive, negative, beta, eps] = s;
  KVASIR_TELL(f, positive, negative, beta, eps);
}
template <Part<Dense> S, class F>
void each_field(S& s, F&& f) {
  auto& [activation, xielu, gate, up, down] = s;
  f("activation", activation);
  if (activation == Activation::kXielu) f("xielu", xielu);  // as Cut::turns
  KVASIR_TELL(f, gate, up, down);
}
template <Part<Routing> S, class F>
void each_field(S& s, F&& f) {
  auto& [count, used, gating, normalise, scale, groups, groups_used, group_best, jitter] = s;
  KVASIR_TELL(f, count, used, gating, normalise, scale, groups, groups_used, group_best);
  if (gating == Gating::kSparseMixer) f("jitter", jitter);  // as Cut::turns
}
template <Part<Experts> S, class F>
void each_field(S& s, F&& f) {
  auto& [routing, router, router_norm, router_scale, choice_bias, weight_scales, weigh_inputs, activation, gate, up,
         down, shared, shared_gate, into, out] = s;
  KVASIR_TELL(f, routing, router, router_norm, router_scale, choice_bias, weight_scales, weigh_inputs, activation, gate,
              up, down, shared, shared_gate, into, out);
}
template <Part<DenseAndExperts> S, class F>
void each_field(S& s, F&& f) {
  auto& [dense, dense_post, experts, experts_norm, experts_post] = s;
  KVASIR_TELL(f, dense, dense_post, experts, experts_norm, experts_post);
}
template <Part<LayerInput> S, class F>
void each_field(S& s, F&& f) {
  auto& [gate, activation, out, post] = s;
  KVASIR_TELL(f, gate, activation, out, post);
}
template <Part<LayerInputs> S, class F>
void each_field(S& s, F&& f) {
  auto& [tokens, projection, norm, scale] = s;
  KVASIR_TELL(f, tokens, projection, norm, scale);
}
template <Part<LayerSpec> S, class F>
void each_field(S& s, F&& f) {
  auto& [norm, mixer, beside, post_mixer, feed_norm, feed, post_feed, input, residual_scale, parallel, output_scale,
         norm_of_sums, post_sum, second, end_norm, weights_of, residuals, mixer_smoothing, feed_smoothing,
         mixer_streams, feed_streams, ngrams] = s;
  KVASIR_TELL(f, norm, mixer, beside, post_mixer, feed_norm, feed, post_feed, input, residual_scale, parallel,
              output_scale, norm_of_sums);
  if (post_sum) f("post_sum", post_sum);  // as Cut::turns
  if (second != Second::kNone) f("second", second);
  if (end_norm) f("end_norm", end_norm);
  if (weights_of >= 0) f("weights_of", weights_of);
  if (residuals) f("residuals", residuals);
  if (mixer_smoothing) f("mixer_smoothing", mixer_smoothing);
  if (feed_smoothing) f("feed_smoothing", feed_smoothing);
  if (mixer_streams) f("mixer_streams", mixer_streams);
  if (feed_streams) f("feed_streams", feed_streams);
  if (ngrams) f("ngrams", ngrams);
}
template <Part<Join> S, class F>
void each_field(S& s, F&& f) {
  auto& [norm, state_norm, both] = s;
  KVASIR_TELL(f, norm, state_norm, both);
}
template <Part<Embedding> S, class F>
void each_field(S& s, F&& f) {
  auto& [tokens, scale, positions, types, norm, layers, join, second, given] = s;
  KVASIR_TELL(f, tokens, scale, positions, types, norm, layers);
  if (join) f("join", join);  // the text of models without one is what it was before there were any
  if (second) f("second", second);
  if (given) f("given", given);
}
template <Part<TokenGroups> S, class F>
void each_field(S& s, F&& f) {
  auto& [centroids, order, used] = s;
  KVASIR_TELL(f, centroids, order, used);
}
template <Part<Head> S, class F>
void each_field(S& s, F&& f) {
  auto& [streams, norm, output, scale, soft_cap, groups, next] = s;
  if (streams) f("streams", streams);  // as Cut::turns
  KVASIR_TELL(f, norm, output, scale, soft_cap);
  if (groups) f("groups", groups);  // as Embedding::join
  if (next) f("next", next);
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
  KVASIR_TELL(f, linear, tanh);
}
template <Part<ModelSpec> S, class F>
void each_field(S& s, F&& f) {
  auto& [arch, dim, vocab, context, embedding, ropes, layers, head, causal, pooling, rank, projections, prefix, deep,
         orders, adapters, in_bf16] = s;
  static_cast<void>(prefix), static_cast<void>(orders), static_cast<void>(adapters), static_cast<void>(in_bf16);
  KVASIR_TELL(f, arch, dim, vocab, context, embedding, ropes, layers, head, causal, pooling, rank);
  if (!projections.empty()) f("projections", projections);  // as Cut::turns
  if (deep > 0) f("deep", deep);                            // as Cut::turns
}

#undef KVASIR_TELL

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
    each_field(part, [&](Unnamed, auto& member) { for_each<Wanted>(member, f); });
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
