// The mean of a few keys at even distances in a block: KTransformers' FIXED.
#include <algorithm>

#include "select/selector.hpp"

namespace kvasir::select::selectors_fixed {
namespace {

void represent(const BlockKeys& block, float* to) {
  const int n = block.end - block.begin;
  const int anchors = std::min(block.anchors, n);
  for (int c = 0; c < block.d; ++c) {
    float sum = 0;
    for (int i = 0; i < anchors; ++i) sum += block.channel(c)[block.begin + i * n / anchors];
    to[c] = sum / static_cast<float>(anchors);
  }
}

}  // namespace

const Selector entry = {.summary = "blocks by a few of their keys at even distances (anchors)",
                        .width = [](int d) { return d; },
                        .represent = represent};

}  // namespace kvasir::select::selectors_fixed
