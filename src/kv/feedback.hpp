// Feedback rounding of keys: a channel is rounded so that it makes up for the errors of the channels before it.
//
// An error e of a stored key changes the score of a query q by q e. On average over the queries that will read it that
// costs E (q e)^2 = e^T H e, H = E q q^T. With H = V V^T, V upper triangular,
//   e^T H e = sum_j V_jj^2 (e_j + sum_{i<j} C_ji e_i)^2,   C_ji = V_ij / V_jj
// so channel j goes to the level nearest to k_j + sum_{i<j} C_ji e_i, where e = k - k^ is known of all channels before.
// That is GPTQ's rule (arXiv:2210.17323), applied to keys in place of weights, without the inverse of H. The page's
// format does not change: codes are only chosen better.
#pragma once

#include <cstddef>
#include <vector>

namespace kvasir::kv {

struct LayerShape;

// Of the mean of H's diagonal, added to the diagonal: H comes from some hundred queries.
inline constexpr double kMetricDamping = 0.1;

// Of a head of d channels: V_jj^2 of every j, then the rows C_j0 .. C_j(j-1), j = 1 .. d - 1, one behind the other.
constexpr std::size_t feedback_floats(int d) {
  const auto n = static_cast<std::size_t>(d);
  return n + n * (n - 1) / 2;
}

// h: (d, d), symmetric, in the basis that channels are rounded in. Scaled to a mean diagonal of 1 and damped. A matrix
// that is none (zero, not finite) leaves every channel alone: weights 1, C 0.
void make_feedback(int d, const double* h, float* to);

// exp of the mean of log V_jj^2 of the damped matrix: what is left per channel of mean(diagonal) when errors are fed
// back. Does not depend on the basis. 0 where make_feedback leaves channels alone.
double fed_back_noise(int d, const double* h);

// E q q^T, (kv_heads, d, d), over the rows and the query heads that read a KV head, each head scaled to the mean E q^2
// of these: heads that find one token again often have the shortest queries (Gemma 3 270M, layer 11), and are the first
// that errors mislead. q: (n, query_heads, d), the first `skip` rows are left out. REQUIRES: skip < n.
std::vector<float> query_moments(const LayerShape& shape, int n, int skip, const float* q);

}  // namespace kvasir::kv
