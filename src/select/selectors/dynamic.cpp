// The sum of the keys that weigh most in a block: KTransformers' DYNAMIC, InfLLM's representative tokens (Xiao et al.
// 2024, arXiv:2402.04617). InfLLM weighs a token by the mean score that the queries behind it give it. Here those of
// one position weigh, the one whose coming seals the page: then a page's summary depends on its tokens alone, however a
// prompt was cut into steps, and nothing more is kept with a sequence.
#include <algorithm>

#include "select/selector.hpp"

namespace kvasir::select::selectors_dynamic {
namespace {

void represent(const BlockKeys& block, float* to) {
  int tokens[kv::kPageTokens];
  const int n = block.end - block.begin;
  for (int t = 0; t < n; ++t) tokens[t] = block.begin + t;
  const int anchors = std::min(block.anchors, n);
  // Of equal weights the earlier token.
  std::partial_sort(tokens, tokens + anchors, tokens + n, [&](int a, int b) {
    return block.importance[a] != block.importance[b] ? block.importance[a] > block.importance[b] : a < b;
  });
  for (int c = 0; c < block.d; ++c) {
    float sum = 0;
    for (int i = 0; i < anchors; ++i) sum += block.channel(c)[tokens[i]];
    to[c] = sum;
  }
}

}  // namespace

const Selector entry = {.summary = "blocks by the keys that weighed most when they were sealed (anchors)",
                        .width = [](int d) { return d; },
                        .represent = represent,
                        .weighs = true};

}  // namespace kvasir::select::selectors_dynamic
