// An estimate of a block's attention mass. If the scores s of a block's tokens are normal, the logarithm of the mean of
// 2^s is  mean(s) + ln 2 / 2 var(s)  in exponents of 2; of var(s) the diagonal is kept, sum_c q_c^2 var(k_c). So a
// block is represented by means and variances of channels, and asked with (q, ln 2 / 2 q^2).
#include <algorithm>

#include "select/selector.hpp"

namespace kvasir::select::selectors_spread {
namespace {

constexpr float kHalfLn2 = 0.34657359f;

void represent(const BlockKeys& block, float* to) {
  const auto n = static_cast<float>(block.end - block.begin);
  for (int c = 0; c < block.d; ++c) {
    const float* const k = block.channel(c);
    float sum = 0;
    for (int t = block.begin; t < block.end; ++t) sum += k[t];
    const float mean = sum / n;
    float squares = 0;
    for (int t = block.begin; t < block.end; ++t) squares += (k[t] - mean) * (k[t] - mean);
    to[c] = mean;
    to[block.d + c] = squares / n;
  }
}

void ask(const float* q, int d, float* to) {
  for (int c = 0; c < d; ++c) {
    to[c] = q[c];
    to[d + c] = kHalfLn2 * q[c] * q[c];
  }
}

}  // namespace

const Selector entry = {.summary = "blocks by an estimate of their mass from means and variances of channels",
                        .width = [](int d) { return 2 * d; },
                        .represent = represent,
                        .ask = ask,
                        .estimates = true};

}  // namespace kvasir::select::selectors_spread
