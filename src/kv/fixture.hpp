// For tests and benchmarks of the cache: random sequences, and attention computed the plain way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kv/cache.hpp"

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
};

inline Tokens random_tokens(const CacheShape& s, int n, std::uint64_t seed, float q_size = 2.0f) {
  Tokens t;
  t.n = n;
  const auto fill = [&](std::vector<std::vector<float>>& x, int row, std::uint64_t salt, float size) {
    for (int l = 0; l < s.layers; ++l) {
      std::vector<float> a(static_cast<std::size_t>(n) * static_cast<std::size_t>(row));
      for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = size * noise(seed * 977 + salt * 131 + static_cast<std::uint64_t>(l), i);
      x.push_back(std::move(a));
    }
  };
  fill(t.q, s.query_heads * s.head_dim, 1, q_size);
  fill(t.k, s.kv_heads * s.head_dim, 2, 1.5f);
  fill(t.v, s.kv_heads * s.head_dim_v, 3, 1.0f);
  return t;
}

inline float default_scale(const CacheShape& s) { return 1.0f / std::sqrt(static_cast<float>(s.head_dim)); }

// Tokens [from, from + count) of `tokens` for `sequence`.
struct Feed {
  Sequence* sequence;
  const Tokens* tokens;
  int from;
  int count;
  bool decode = false;
};

// One step over all feeds as one batch. Returns the outputs per feed and layer, (count, H, dv).
inline std::vector<std::vector<std::vector<float>>> step(Cache& cache, const std::vector<Feed>& feeds) {
  const CacheShape& s = cache.shape();
  std::vector<Slice> slices;
  int n = 0;
  for (const Feed& f : feeds) {
    slices.push_back({f.sequence, n, f.count, f.decode});
    n += f.count;
  }
  const auto q_row = static_cast<std::size_t>(s.query_heads * s.head_dim);
  const auto k_row = static_cast<std::size_t>(s.kv_heads * s.head_dim);
  const auto v_row = static_cast<std::size_t>(s.kv_heads * s.head_dim_v);
  const auto out_row = static_cast<std::size_t>(s.query_heads * s.head_dim_v);
  std::vector<std::vector<std::vector<float>>> result(feeds.size());
  cache.begin(slices);
  for (int l = 0; l < s.layers; ++l) {
    const auto layer = static_cast<std::size_t>(l);
    std::vector<float> q, k, v;
    for (const Feed& f : feeds) {
      const auto rows = [&](std::vector<float>& to, const std::vector<float>& from, std::size_t row) {
        to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(f.from) * row),
                  from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(f.from + f.count) * row));
      };
      rows(q, f.tokens->q[layer], q_row);
      rows(k, f.tokens->k[layer], k_row);
      rows(v, f.tokens->v[layer], v_row);
    }
    std::vector<float> out(static_cast<std::size_t>(n) * out_row, -7.0f);
    cache.attend(l, q.data(), k.data(), v.data(), out.data(), default_scale(s));
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
                                            int chunk) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(cache.shape().layers));
  for (int at = from; at < to; at += chunk) {
    const auto outs = step(cache, {{sequence, &tokens, at, std::min(chunk, to - at)}});
    for (std::size_t l = 0; l < all.size(); ++l) all[l].insert(all[l].end(), outs[0][l].begin(), outs[0][l].end());
  }
  return all;
}

}  // namespace kvasir::kv::fixture
