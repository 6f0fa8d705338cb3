#include "kernel/bidirectional.hpp"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "kernel/ops.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

static_assert(kWholePanel == kLanes);
constexpr int kGroup = 6;  // queries that are multiplied together: what their sums leave of 16 registers of AVX2
static_assert(kWholeQueries % kGroup == 0);

// Rows in panels of 16: (panels, d, 16), so that a lane is a row and what is read lies together; 0 behind the last row.
void pack_keys(const WholeHead& h, std::int64_t pitch, float* to) {
  for (std::int64_t r = 0; r < pitch; r += kLanes)
    for (int c = 0; c < h.d; ++c)
      for (int lane = 0; lane < kLanes; ++lane) *to++ = r + lane < h.n ? h.k[(r + lane) * h.k_stride + c] : 0;
}

// Channels in panels of 16: (panels, n, 16).
void pack_values(const WholeHead& h, float* to) {
  for (int c = 0; c < h.dv; c += kLanes)
    for (std::int64_t r = 0; r < h.n; ++r, to += kLanes)
      store(to, load_n(h.v + r * h.v_stride + c, std::min(h.dv - c, kLanes)));
}

// Products of `Count` queries with a panel of keys to `scores`, pitch apart.
template <int Count>
void score_panel(const WholeHead& h, std::int64_t query, const float* panel, std::int64_t pitch, float* scores) {
  F32 sum[Count];
  for (F32& s : sum) s = zero();
  const float* const q = h.q + query * h.q_stride;
  for (int c = 0; c < h.d; ++c) {
    const F32 keys = load(panel + c * kLanes);
    for (int i = 0; i < Count; ++i) sum[i] = fma(set1(q[i * h.q_stride + c]), keys, sum[i]);
  }
  for (int i = 0; i < Count; ++i) store(scores + i * pitch, mul(sum[i], set1(h.scale)));
}

// Rows that some row of a group sees; `low` is a multiple of kLanes.
struct Seen {
  std::int64_t low, high;
};

Seen seen_by(const WholeHead& h, std::int64_t first, std::int64_t count) {
  if (h.reach < 0) return {0, h.n};
  return {std::max<std::int64_t>(0, first - h.reach) / kLanes * kLanes, std::min(h.n, first + count + h.reach)};
}

// Sums of values by the weights of `Count` queries, divided by `totals`: channels of one panel.
template <int Count>
void add_values(const WholeHead& h, std::int64_t query, const float* panel, int channel, const float* weights,
                std::int64_t pitch, const float* totals, Seen seen) {
  F32 sum[Count];
  for (F32& s : sum) s = zero();
  for (std::int64_t r = seen.low; r < seen.high; ++r) {
    const F32 values = load(panel + r * kLanes);
    for (int i = 0; i < Count; ++i) sum[i] = fma(set1(weights[i * pitch + r]), values, sum[i]);
  }
  for (int i = 0; i < Count; ++i)
    store_n(h.out + (query + i) * h.out_stride + channel, mul(sum[i], set1(1.0f / totals[i])),
            std::min(h.dv - channel, kLanes));
}

// The scores s of row `query` become exp(s - max), and 0 where it does not see; returns their sum.
float weigh(const WholeHead& h, std::int64_t query, Seen seen, float* s) {
  const Seen own = seen_by(h, query, 1);
  const std::int64_t begin = h.reach < 0 ? 0 : std::max(own.low, query - h.reach), end = own.high;
  if (h.soft_cap > 0) ops_table.soft_cap(s + begin, h.soft_cap, end - begin);
  if (h.slope != 0)
    for (std::int64_t r = begin; r < end; ++r) s[r] -= h.slope * static_cast<float>(std::abs(r - query));
  float most = s[begin];
  for (std::int64_t r = begin + 1; r < end; ++r) most = s[r] > most ? s[r] : most;
  F32 sum = zero();
  for (std::int64_t r = seen.low; r < seen.high; r += kLanes) {
    store(s + r, exp(sub(load(s + r), set1(most))));
    for (std::int64_t i = r; i < std::min(begin, r + kLanes); ++i) s[i] = 0;
    for (std::int64_t i = std::max(end, r); i < r + kLanes; ++i) s[i] = 0;
    sum = add(sum, load(s + r));
  }
  return reduce_add(sum);
}

// f(first, count as a type) for groups of `count` queries, and those left over one by one.
template <class F>
void in_groups(std::int64_t count, const F& f) {
  std::int64_t i = 0;
  for (; i + kGroup <= count; i += kGroup) f(i, std::integral_constant<int, kGroup>());
  for (; i < count; ++i) f(i, std::integral_constant<int, 1>());
}

// Each row's sums are made in one order, whatever is computed beside it.
void attend(const WholeHead& h, float* scratch) {
  const std::int64_t pitch = whole_pitch(h.n);
  float *const keys = scratch, *const values = keys + pitch * h.d, *const scores = values + pitch * whole_pitch(h.dv);
  pack_keys(h, pitch, keys);
  pack_values(h, values);
  for (std::int64_t first = 0; first < h.n; first += kWholeQueries) {
    const std::int64_t count = std::min(kWholeQueries, h.n - first);
    const Seen seen = seen_by(h, first, count);
    for (std::int64_t r = seen.low; r < seen.high; r += kLanes)
      in_groups(count, [&](std::int64_t i, auto size) {
        score_panel<size()>(h, first + i, keys + r * h.d, pitch, scores + i * pitch + r);
      });
    float totals[kWholeQueries];
    for (std::int64_t i = 0; i < count; ++i) totals[i] = weigh(h, first + i, seen, scores + i * pitch);
    for (int c = 0; c < h.dv; c += kLanes)
      in_groups(count, [&](std::int64_t i, auto size) {
        add_values<size()>(h, first + i, values + c * h.n, c, scores + i * pitch, pitch, totals + i, seen);
      });
  }
}

}  // namespace

extern const BidirectionalKernels bidirectional_table;
const BidirectionalKernels bidirectional_table{attend};

}  // namespace kvasir::kernel::KVASIR_TARGET
