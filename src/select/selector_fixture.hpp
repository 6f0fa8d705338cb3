// For tests of selectors: a cache with layers that are asked about and one that is not, and what it gives.
#pragma once

#include <string>

#include "kv/device_fixture.hpp"
#include "kv/outputs_fixture.hpp"
#include "select/spec.hpp"

namespace kvasir::kv::fixture {

inline CacheShape shape() {
  CacheShape s = CacheShape::uniform(3, {2, 6, 32, 32});
  s.layers[1].window = 200;  // is not asked about
  return s;
}

inline CacheOptions options_for(int tokens, const std::string& selector) {
  CacheOptions o;
  o.k_codec = o.v_codec = "rq4";
  o.selector = select::read_selector(selector, "test");
  o.max_tokens = tokens;
  o.max_sequences = 4;
  o.device = suite_device();
  return o;
}

inline constexpr int kPrompt = 1500;
inline constexpr int kAll = kPrompt + 60;  // the generated tokens enter a block

inline Outputs run(const std::string& selector, int threads, int chunk = 500) {
  Team team(threads);
  Cache cache(team, shape(), options_for(4 * kAll, selector));
  const Tokens t = random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  feed(cache, s, t, 0, kPrompt, chunk);
  return decode(cache, s, t, kPrompt, kAll);
}

}  // namespace kvasir::kv::fixture
