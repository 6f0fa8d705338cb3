#include "kernel/bidirectional.hpp"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "kernel/ops.hpp"
#include "simd/half.hpp"
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
  F32 each = set1(s[begin]);
  std::int64_t whole = begin;
  for (; whole + kLanes <= end; whole += kLanes) each = max(load(s + whole), each);
  float most = reduce_max(each);
  for (std::int64_t r = whole; r < end; ++r) most = s[r] > most ? s[r] : most;
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
template <int Group = kGroup, class F>
void in_groups(std::int64_t count, const F& f) {
  std::int64_t i = 0;
  for (; i + Group <= count; i += Group) f(i, std::integral_constant<int, Group>());
  for (; i < count; ++i) f(i, std::integral_constant<int, 1>());
}

// From one query's scores to the next one's: not a power of two, or those of all would have one set of the cache.
constexpr std::int64_t scores_apart(std::int64_t n) { return whole_pitch(n) + kLanes; }

// Each row's sums are made in one order, whatever is computed beside it.
void attend(const WholeHead& h, float* scratch) {
  const std::int64_t pitch = whole_pitch(h.n), apart = scores_apart(h.n);
  float *const keys = scratch, *const values = keys + pitch * h.d, *const scores = values + pitch * whole_pitch(h.dv);
  pack_keys(h, pitch, keys);
  pack_values(h, values);
  for (std::int64_t first = 0; first < h.n; first += kWholeQueries) {
    const std::int64_t count = std::min(kWholeQueries, h.n - first);
    const Seen seen = seen_by(h, first, count);
    for (std::int64_t r = seen.low; r < seen.high; r += kLanes)
      in_groups(count, [&](std::int64_t i, auto size) {
        score_panel<size()>(h, first + i, keys + r * h.d, apart, scores + i * apart + r);
      });
    float totals[kWholeQueries];
    for (std::int64_t i = 0; i < count; ++i) totals[i] = weigh(h, first + i, seen, scores + i * apart);
    for (int c = 0; c < h.dv; c += kLanes)
      in_groups(count, [&](std::int64_t i, auto size) {
        add_values<size()>(h, first + i, values + c * h.n, c, scores + i * apart, apart, totals + i, seen);
      });
  }
}

#if KVASIR_HAS_BF16
constexpr int kPairGroup = KVASIR_VECTOR_REGISTERS >= 32 ? 12 : kGroup;
static_assert(kWholeQueries % kPairGroup == 0);

std::uint32_t pair_of(float low, float high) {
  return simd::f32_to_bf16(low) | std::uint32_t{simd::f32_to_bf16(high)} << 16;
}

// Channels 2 i and 2 i + 1 of `count` rows, 0 behind the last channel: (count, (d + 1) / 2), a row of which is `step`
// apart from the next and an element `next` from the one before.
void pack_pairs(const float* rows, std::int64_t stride, std::int64_t count, int d, std::uint32_t* to, std::int64_t step,
                std::int64_t next) {
  for (std::int64_t r = 0; r < count; ++r)
    for (int c = 0; c < d; c += 2) {
      const float* const x = rows + r * stride + c;
      to[r * step + c / 2 * next] = pair_of(x[0], c + 1 < d ? x[1] : 0);
    }
}

// As pack_values, two rows in a lane: (panels, (n + 1) / 2, 16).
void pack_value_pairs(const WholeHead& h, std::uint32_t* to) {
  for (int c = 0; c < h.dv; c += kLanes)
    for (std::int64_t r = 0; r < h.n; r += 2, to += kLanes) {
      const float* const x = h.v + r * h.v_stride + c;
      for (int lane = 0; lane < kLanes; ++lane) {
        const bool there = lane < h.dv - c;
        to[lane] = pair_of(there ? x[lane] : 0, there && r + 1 < h.n ? x[h.v_stride + lane] : 0);
      }
    }
}

// sum[i] += the products of `count` pairs of row i of x, `stride` apart, with the panel's.
template <int Count>
KVASIR_INLINE void add_pairs(const std::uint32_t* x, std::int64_t stride, const std::uint32_t* panel,
                             std::int64_t count, F32* sum) {
  for (std::int64_t r = 0; r < count; ++r) {
    const Bytes y = load_bytes(panel + r * kLanes);
    for (int i = 0; i < Count; ++i) sum[i] = dot_bf16(sum[i], y, broadcast4(x + i * stride + r));
  }
}

// n weights of a row as pairs in their place.
void round_weights(float* s, std::int64_t n) {
  for (std::int64_t r = 0; r < n; r += 2 * kLanes)
    store_bytes(s + r / 2, to_bf16(load(s + r), r + kLanes < n ? load(s + r + kLanes) : zero()));
}

// REQUIRES: head.reach < 0
void attend_pairs(const WholeHead& h, float* scratch) {
  const std::int64_t pitch = whole_pitch(h.n), pairs = (h.d + 1) / 2, rows = (h.n + 1) / 2, apart = scores_apart(h.n);
  float *const values_at = scratch + pitch * h.d, *const scores = values_at + pitch * whole_pitch(h.dv);
  auto* const keys = reinterpret_cast<std::uint32_t*>(scratch);
  auto* const values = reinterpret_cast<std::uint32_t*>(values_at);
  auto* const queries = reinterpret_cast<std::uint32_t*>(scores + kWholeQueries * apart);
  std::fill_n(keys, pitch * pairs, 0u);
  for (std::int64_t r = 0; r < h.n; r += kLanes)
    pack_pairs(h.k + r * h.k_stride, h.k_stride, std::min<std::int64_t>(kLanes, h.n - r), h.d, keys + r * pairs, 1,
               kLanes);
  pack_value_pairs(h, values);
  for (std::int64_t first = 0; first < h.n; first += kWholeQueries) {
    const std::int64_t count = std::min(kWholeQueries, h.n - first);
    pack_pairs(h.q + first * h.q_stride, h.q_stride, count, h.d, queries, pairs, 1);
    for (std::int64_t r = 0; r < h.n; r += kLanes)
      in_groups<kPairGroup>(count, [&](std::int64_t i, auto size) {
        F32 sum[size()];
        for (F32& s : sum) s = zero();
        add_pairs<size()>(queries + i * pairs, pairs, keys + r * pairs, pairs, sum);
        for (int j = 0; j < size(); ++j) store(scores + (i + j) * apart + r, mul(sum[j], set1(h.scale)));
      });
    float totals[kWholeQueries];
    for (std::int64_t i = 0; i < count; ++i) {
      totals[i] = weigh(h, first + i, {0, h.n}, scores + i * apart);
      round_weights(scores + i * apart, pitch);
    }
    const auto* const weights = reinterpret_cast<const std::uint32_t*>(scores);
    for (int c = 0; c < h.dv; c += kLanes)
      in_groups<kPairGroup>(count, [&](std::int64_t i, auto size) {
        F32 sum[size()];
        for (F32& s : sum) s = zero();
        add_pairs<size()>(weights + i * apart, apart, values + c / kLanes * rows * kLanes, rows, sum);
        for (int j = 0; j < size(); ++j)
          store_n(h.out + (first + i + j) * h.out_stride + c, mul(sum[j], set1(1.0f / totals[i + j])),
                  std::min(h.dv - c, kLanes));
      });
  }
}
#else
constexpr void (*attend_pairs)(const WholeHead&, float*) = nullptr;
#endif

}  // namespace

extern const BidirectionalKernels bidirectional_table;
const BidirectionalKernels bidirectional_table{attend, attend_pairs};

}  // namespace kvasir::kernel::KVASIR_TARGET
