// Quest (Tang et al. 2024, arXiv:2406.10774, section 3): a block's channel-wise maxima and minima bound every score
// that its keys can have with a query. sum_c max(q_c max_c, q_c min_c) is the inner product of (q+, q-) with (max,
// min).
#include <algorithm>

#include "select/selector.hpp"

namespace kvasir::select::selectors_quest {
namespace {

void represent(const BlockKeys& block, float* to) {
  for (int c = 0; c < block.d; ++c) {
    const float* const k = block.channel(c);
    const auto [low, high] = std::minmax_element(k + block.begin, k + block.end);
    to[c] = *high;
    to[block.d + c] = *low;
  }
}

void ask(const float* q, int d, float* to) {
  for (int c = 0; c < d; ++c) {
    to[c] = std::max(q[c], 0.0f);
    to[d + c] = std::min(q[c], 0.0f);
  }
}

}  // namespace

const Selector entry = {.summary = "blocks whose bounds by channel promise the largest scores (Quest)",
                        .width = [](int d) { return 2 * d; },
                        .represent = represent,
                        .ask = ask,
                        .bounds = true};

}  // namespace kvasir::select::selectors_quest
