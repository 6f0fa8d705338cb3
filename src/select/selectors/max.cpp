// The channel-wise maximum of a block's keys: KTransformers' BLOCK_MAX, without its error for channels below 0.
#include <algorithm>

#include "select/selector.hpp"

namespace kvasir::select::selectors_max {
namespace {

void represent(const BlockKeys& block, float* to) {
  for (int c = 0; c < block.d; ++c)
    to[c] = *std::max_element(block.channel(c) + block.begin, block.channel(c) + block.end);
}

}  // namespace

const Selector entry = {.summary = "blocks by the maxima of their keys' channels",
                        .width = [](int d) { return d; },
                        .represent = represent};

}  // namespace kvasir::select::selectors_max
