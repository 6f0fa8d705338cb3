// For tests that compare what a cache gives, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kv/cache_fixture.hpp"

namespace kvasir::kv::fixture {

using Outputs = std::vector<std::vector<float>>;  // by layer, (tokens, heads, d)

// Tokens [from, to) one by one, as generated ones.
inline Outputs decode(Cache& cache, Sequence* s, const Tokens& t, int from, int to) {
  Outputs all(cache.shape().layers.size());
  for (int i = from; i < to; ++i) {
    const auto outs = step(cache, {{s, &t, i, 1, true}});
    for (std::size_t l = 0; l < all.size(); ++l) all[l].insert(all[l].end(), outs[0][l].begin(), outs[0][l].end());
  }
  return all;
}

inline void append(Outputs* to, const Outputs& more) {
  to->resize(more.size());
  for (std::size_t l = 0; l < more.size(); ++l) (*to)[l].insert((*to)[l].end(), more[l].begin(), more[l].end());
}

inline void expect_same_bits(const Outputs& a, const Outputs& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t l = 0; l < a.size(); ++l) {
    ASSERT_EQ(a[l].size(), b[l].size()) << what;
    ASSERT_EQ(std::memcmp(a[l].data(), b[l].data(), a[l].size() * sizeof(float)), 0) << what << ", layer " << l;
  }
}

}  // namespace kvasir::kv::fixture
