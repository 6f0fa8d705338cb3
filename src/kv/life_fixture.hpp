// What sequences of a cache can go through, for tests of caches that differ in where their pages are.
#pragma once

#include <vector>

#include "kv/outputs_fixture.hpp"

namespace kvasir::kv::fixture {

// Tokens that `live` has of a sequence with a prompt of so many.
inline int life_tokens(int prompt) { return prompt + 140; }  // enters a block

// A prompt in chunks, generated tokens beside another sequence, a fork, a cut, a sequence from bytes. Needs room for
// four sequences.
inline Outputs live(Cache& cache, int prompt, int chunk, float soft_cap = 0) {
  const int all = life_tokens(prompt);
  const Tokens t = random_tokens(cache.shape(), all, 71), other = random_tokens(cache.shape(), all, 72);
  Sequence* s = cache.create();
  Outputs outs = feed(cache, s, t, 0, prompt, chunk, soft_cap);
  Sequence* b = cache.create();
  append(&outs, feed(cache, b, other, 0, 700, 333));
  for (int i = 0; i < 30; ++i) {
    const auto both = step(cache, {{s, &t, prompt + i, 1, true}, {b, &other, 700 + i, 1, i % 2 == 0}}, soft_cap);
    for (const auto& one : both) append(&outs, one);
  }
  Sequence* fork = cache.fork(*s);
  append(&outs, decode(cache, fork, other, prompt + 30, prompt + 40));
  cache.truncate(fork, prompt + 30);
  append(&outs, decode(cache, fork, t, prompt + 30, prompt + 40));
  append(&outs, decode(cache, s, t, prompt + 30, all));
  cache.release(b);
  std::vector<std::byte> tail(cache.rules().tail_bytes(all));
  cache.bytes().save_tail(*s, all, tail);
  Sequence* restored = cache.bytes().restore(all, tail);
  for (std::int64_t i = 0; i < cache.rules().sealed_pages(all); ++i) {
    std::vector<std::byte> page;
    for (const auto piece : cache.bytes().sealed_page(*s, i)) page.insert(page.end(), piece.begin(), piece.end());
    cache.bytes().fill_page(*restored, i, page);
  }
  EXPECT_EQ(cache.bytes().digest(*restored), cache.bytes().digest(*s));
  append(&outs, decode(cache, restored, other, 0, 5));
  cache.check_integrity();
  return outs;
}

}  // namespace kvasir::kv::fixture
