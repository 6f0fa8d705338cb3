// For tests and benchmarks of the cache: random sequences, and attention computed the plain way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/cache.hpp"
#include "simd/half.hpp"

namespace kvasir::kv::fixture {

// Uniform in [-1, 1), a function of seed and index.
inline float noise(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + i * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  return static_cast<float>(static_cast<std::int64_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
}

// Queries, keys and values of `n` tokens in every layer: q[layer] (n, H, d), k[layer] (n, KV, d), v[layer] (n, KV, dv).
struct Tokens {
  int n = 0;
  std::vector<std::vector<float>> q, k, v;
  // Of every index: queries (n, heads, dim), rows (n, dim), weights (n, heads).
  std::vector<std::vector<float>> index_q, index_k, index_weights;
};

inline Tokens random_tokens(const CacheShape& s, int n, std::uint64_t seed, float q_size = 2.0f) {
  Tokens t;
  t.n = n;
  const auto fill = [&](std::vector<std::vector<float>>& x, auto row, std::uint64_t salt, float size) {
    for (int l = 0; l < s.count(); ++l) {
      std::vector<float> a(static_cast<std::size_t>(n) * static_cast<std::size_t>(row(s.at(l))));
      for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = size * noise(seed * 977 + salt * 131 + static_cast<std::uint64_t>(l), i);
      x.push_back(std::move(a));
    }
  };
  fill(
      t.q, [](const LayerShape& l) { return l.query_heads * l.head_dim; }, 1, q_size);
  fill(
      t.k, [](const LayerShape& l) { return l.kv_heads * l.head_dim; }, 2, 1.5f);
  fill(
      t.v, [](const LayerShape& l) { return l.kv_heads * l.head_dim_v; }, 3, 1.0f);
  for (int l = 0; l < s.count(); ++l) {  // values of latent layers are the first elements of their keys
    const LayerShape& shape = s.at(l);
    const auto layer = static_cast<std::size_t>(l);
    for (int row = 0; shape.latent && row < n * shape.kv_heads; ++row)
      std::copy_n(t.k[layer].begin() + row * shape.head_dim, shape.head_dim_v,
                  t.v[layer].begin() + row * shape.head_dim_v);
  }
  for (const IndexShape& x : s.indexes) {
    const auto add = [&](std::vector<std::vector<float>>& to, int row, std::uint64_t salt) {
      std::vector<float> a(static_cast<std::size_t>(n) * static_cast<std::size_t>(row));
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = noise(seed * 977 + salt * 131 + to.size(), i);
      to.push_back(std::move(a));
    };
    add(t.index_q, x.heads * x.dim, 4);
    add(t.index_k, x.dim, 5);
    add(t.index_weights, x.heads, 6);
  }
  return t;
}

inline float default_scale(const LayerShape& s) { return 1.0f / std::sqrt(static_cast<float>(s.head_dim)); }
inline float default_scale(const CacheShape& s) { return default_scale(s.at(0)); }

// Tokens [from, from + count) of `tokens` for `sequence`.
struct Feed {
  Sequence* sequence;
  const Tokens* tokens;
  int from;
  int count;
  bool decode = false;
  std::span<const BothWays> both = {};
};

// One step over all feeds as one batch. Returns the outputs per feed and layer, (count, H, dv).
inline std::vector<std::vector<std::vector<float>>> step(Cache& cache, const std::vector<Feed>& feeds,
                                                         float soft_cap = 0, const Rotation* rotation = nullptr) {
  const CacheShape& s = cache.shape();
  std::vector<Slice> slices;
  int n = 0;
  for (const Feed& f : feeds) {
    slices.push_back({f.sequence, n, f.count, f.decode, f.both});
    n += f.count;
  }
  std::vector<std::vector<std::vector<float>>> result(feeds.size());
  // Rows of all feeds, `row` floats each.
  const auto rows_of = [&](auto part, std::size_t row) {
    std::vector<float> to;
    for (const Feed& f : feeds) {
      const std::vector<float>& from = part(*f.tokens);
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(f.from) * row),
                from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(f.from + f.count) * row));
    }
    return to;
  };
  int chosen = -1;
  cache.begin(slices);
  for (int l = 0; l < s.count(); ++l) {
    if (const int index = s.at(l).chosen_by; index >= 0 && index != chosen) {
      chosen = index;
      const auto x = static_cast<std::size_t>(index);
      const auto heads = static_cast<std::size_t>(s.indexes[x].heads), dim = static_cast<std::size_t>(s.indexes[x].dim);
      cache.choose(index,
                   rows_of(
                       [&](const Tokens& t) -> const auto& { return t.index_q[x]; }, heads* dim)
                       .data(),
                   rows_of(
                       [&](const Tokens& t) -> const auto& { return t.index_k[x]; }, dim)
                       .data(),
                   rows_of(
                       [&](const Tokens& t) -> const auto& { return t.index_weights[x]; }, heads)
                       .data());
    }
    const auto layer = static_cast<std::size_t>(l);
    const LayerShape& shape = s.at(l);
    const auto q_row = static_cast<std::size_t>(shape.query_heads * shape.head_dim);
    const auto k_row = static_cast<std::size_t>(shape.kv_heads * shape.head_dim);
    const auto v_row = static_cast<std::size_t>(shape.kv_heads * shape.head_dim_v);
    const auto out_row = static_cast<std::size_t>(shape.query_heads * shape.head_dim_v);
    const std::vector<float> q = rows_of(
        [&](const Tokens& t) -> const auto& { return t.q[layer]; }, q_row);
    const std::vector<float> k = rows_of(
        [&](const Tokens& t) -> const auto& { return t.k[layer]; }, k_row);
    const std::vector<float> v = rows_of(
        [&](const Tokens& t) -> const auto& { return t.v[layer]; }, v_row);
    std::vector<float> out(static_cast<std::size_t>(n) * out_row, -7.0f);
    const bool own = shape.kv_of < 0;
    cache.attend(l, q.data(), own ? k.data() : nullptr, own && !shape.latent ? v.data() : nullptr, out.data(),
                 {.scale = default_scale(shape), .soft_cap = soft_cap, .rotation = rotation});
    std::size_t row = 0;
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      const auto count = static_cast<std::size_t>(feeds[i].count);
      result[i].emplace_back(out.begin() + static_cast<std::ptrdiff_t>(row * out_row),
                             out.begin() + static_cast<std::ptrdiff_t>((row + count) * out_row));
      row += count;
    }
  }
  cache.commit();
  return result;
}

// Feeds tokens [from, to) in chunks; outputs of all of them per layer.
inline std::vector<std::vector<float>> feed(Cache& cache, Sequence* sequence, const Tokens& tokens, int from, int to,
                                            int chunk, float soft_cap = 0) {
  std::vector<std::vector<float>> all(cache.shape().layers.size());
  for (int at = from; at < to; at += chunk) {
    const auto outs = step(cache, {{sequence, &tokens, at, std::min(chunk, to - at)}}, soft_cap);
    for (std::size_t l = 0; l < all.size(); ++l) all[l].insert(all[l].end(), outs[0][l].begin(), outs[0][l].end());
  }
  return all;
}

inline double as_stored(float x, const std::string& codec) {
  if (codec == "f16") return simd::f16_to_f32(simd::f32_to_f16(x));
  if (codec == "bf16") return simd::bf16_to_f32(simd::f32_to_bf16(x));
  return x;
}

// Tokens that index x chooses for token i, by scores in double of rows as the lossless codec stores them, of whole
// blocks by their last rows; of equals the earlier. With those behind the last whole block.
inline std::vector<bool> chosen_in_double(const CacheShape& shape, const Tokens& t, std::size_t x, int i,
                                          const std::string& codec) {
  const auto heads = static_cast<std::size_t>(shape.indexes[x].heads),
             dim = static_cast<std::size_t>(shape.indexes[x].dim);
  const auto at = static_cast<std::size_t>(i), block = static_cast<std::size_t>(shape.indexes[x].block);
  std::vector<std::pair<double, int>> order;
  for (std::size_t j = block - 1; j <= at; j += block) {
    double score = 0;
    for (std::size_t h = 0; h < heads; ++h) {
      double dot = 0;
      for (std::size_t c = 0; c < dim; ++c)
        dot +=
            static_cast<double>(t.index_q[x][(at * heads + h) * dim + c]) * as_stored(t.index_k[x][j * dim + c], codec);
      score += static_cast<double>(t.index_weights[x][at * heads + h]) * std::max(dot, 0.0);
    }
    order.emplace_back(-score, static_cast<int>(j));
  }
  std::sort(order.begin(), order.end());
  std::vector<bool> chosen(at + 1);
  for (std::size_t j = 0; j < std::min(order.size(), static_cast<std::size_t>(shape.indexes[x].top) / block); ++j)
    for (std::size_t back = 0; back < block; ++back) chosen[static_cast<std::size_t>(order[j].second) - back] = true;
  for (std::size_t j = (at + 1) / block * block; j <= at; ++j) chosen[j] = true;
  return chosen;
}

// Relative L2 error of the outputs of all rows of one layer against softmax(score(q k)) v in double, with keys and
// values as the lossless codec stores them.
inline double error_against_double(const CacheShape& shape, const Tokens& t, const std::vector<float>& out,
                                   const std::string& codec, int layer, double soft_cap = 0,
                                   std::span<const BothWays> both = {}) {
  const LayerShape& s = shape.at(layer);
  const auto owner = static_cast<std::size_t>(s.kv_of < 0 ? layer : s.kv_of);
  const int g = s.group();
  const auto at = [](const auto& x, int token, int heads, int head, int d, int c) {
    return static_cast<double>(x[static_cast<std::size_t>((token * heads + head) * d + c)]);
  };
  const auto stored = [&](const std::vector<float>& x) {
    std::vector<double> y;
    for (const float value : x) y.push_back(as_stored(value, codec));
    return y;
  };
  const auto& q = t.q[static_cast<std::size_t>(layer)];
  const std::vector<double> k = stored(t.k[owner]);
  const std::vector<double> v = stored(t.v[owner]);
  double wrong = 0;
  double size = 0;
  std::vector<double> p(static_cast<std::size_t>(t.n));
  const int stride = t.n > 400 ? 37 : t.n > 100 ? 5 : 1;
  for (int i = 0; i < t.n; i += stride) {
    const auto window = static_cast<int>(s.window);
    std::vector<bool> chosen;
    if (s.chosen_by >= 0) chosen = chosen_in_double(shape, t, static_cast<std::size_t>(s.chosen_by), i, codec);
    const int first = window == 0 ? 0 : s.chunked ? i - i % window : std::max(0, i + 1 - window);
    for (int h = 0; h < s.query_heads; ++h) {
      double top = -1e300;
      int from = first, to = i;
      for (const BothWays& b : both)
        if (i >= b.begin && i < b.end)
          from = std::min(from, static_cast<int>(b.begin)), to = static_cast<int>(b.end) - 1;
      // Of a run all is seen, however far away; of what lies in front of it what the window holds.
      const auto seen = [&](int j) {
        for (const BothWays& b : both)
          if (i >= b.begin && i < b.end && j >= b.begin && j < b.end) return true;
        if (!chosen.empty() && !chosen[static_cast<std::size_t>(j)]) return false;
        return j >= first && j <= i;
      };
      for (int j = from; j <= to; ++j) {
        if (!seen(j)) continue;
        double x = 0;
        for (int c = 0; c < s.head_dim; ++c)
          x += at(q, i, s.query_heads, h, s.head_dim, c) * at(k, j, s.kv_heads, h / g, s.head_dim, c);
        x /= std::sqrt(static_cast<double>(s.head_dim));
        if (soft_cap > 0) x = soft_cap * std::tanh(x / soft_cap);
        p[static_cast<std::size_t>(j)] = x;
        top = std::max(top, x);
      }
      double sum = 0;
      std::vector<double> row(static_cast<std::size_t>(s.head_dim_v));
      for (int j = from; j <= to; ++j) {
        if (!seen(j)) continue;
        const double w = std::exp(p[static_cast<std::size_t>(j)] - top);
        sum += w;
        for (int c = 0; c < s.head_dim_v; ++c)
          row[static_cast<std::size_t>(c)] += w * at(v, j, s.kv_heads, h / g, s.head_dim_v, c);
      }
      for (int c = 0; c < s.head_dim_v; ++c) {
        const double want = row[static_cast<std::size_t>(c)] / sum;
        const double got = at(out, i, s.query_heads, h, s.head_dim_v, c);
        wrong += (got - want) * (got - want);
        size += want * want;
      }
    }
  }
  return std::sqrt(wrong / size);
}

}  // namespace kvasir::kv::fixture
