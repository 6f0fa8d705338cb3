// The mean of a block's keys, the gate of MoBA (Lu et al. 2025, arXiv:2502.13189) and KTransformers' BLOCK_MEAN.
#include "select/selector.hpp"

namespace kvasir::select::selectors_mean {
namespace {

void represent(const BlockKeys& block, float* to) {
  for (int c = 0; c < block.d; ++c) {
    float sum = 0;
    for (int t = block.begin; t < block.end; ++t) sum += block.channel(c)[t];
    to[c] = sum / static_cast<float>(block.end - block.begin);
  }
}

}  // namespace

const Selector entry = {.summary = "blocks by the mean of their keys",
                        .width = [](int d) { return d; },
                        .represent = represent,
                        .estimates = true};  // from below: the mean of 2^s is at least 2^(mean of s)

}  // namespace kvasir::select::selectors_mean
