#include "select/summaries.hpp"

#include "simd/vec.hpp"

namespace kvasir::select::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// 16 sums at once: R rows by B blocks. Always reduced as 16, so that a sum's order is one.
template <int R, int B>
KVASIR_INLINE void block_scores(const std::uint16_t* const (&x)[B], int pitch, const float* q, float* scores,
                                std::ptrdiff_t stride) {
  F32 acc[16];
  KVASIR_UNROLL(16)
  for (int i = 0; i < 16; ++i) acc[i] = zero();
  KVASIR_UNROLL(1)
  for (int c = 0; c < pitch; c += kLanes) {
    F32 rows[R];
    KVASIR_UNROLL(4)
    for (int r = 0; r < R; ++r) rows[r] = load(q + static_cast<std::ptrdiff_t>(r) * pitch + c);
    KVASIR_UNROLL(4)
    for (int b = 0; b < B; ++b) {
      const F32 k = load_f16(x[b] + c);
      KVASIR_UNROLL(4)
      for (int r = 0; r < R; ++r) acc[b * R + r] = fma(rows[r], k, acc[b * R + r]);
    }
  }
  alignas(64) float sums[16];
  store(sums, reduce_adds(acc));
  for (int b = 0; b < B; ++b)
    for (int r = 0; r < R; ++r) scores[r * stride + b] = sums[b * R + r];
}

constexpr int kBlocks = 4;

template <int R>
KVASIR_INLINE void row_scores(const std::byte* const* summaries, std::int64_t pages, int blocks, int pitch,
                              const float* q, float* scores, std::ptrdiff_t stride) {
  const std::int64_t all = pages * blocks;
  std::int64_t page = 0;
  int place = 0;
  const auto next = [&] {
    const auto* p =
        reinterpret_cast<const std::uint16_t*>(summaries[page]) + static_cast<std::ptrdiff_t>(place) * pitch;
    if (++place == blocks) place = 0, ++page;
    return p;
  };
  std::int64_t i = 0;
  for (; i + kBlocks <= all; i += kBlocks) {
    const std::uint16_t* x[kBlocks];
    for (int b = 0; b < kBlocks; ++b) x[b] = next();
    block_scores<R, kBlocks>(x, pitch, q, scores + i, stride);
  }
  for (; i < all; ++i) {
    const std::uint16_t* x[1] = {next()};
    block_scores<R, 1>(x, pitch, q, scores + i, stride);
  }
}

void scores(const std::byte* const* summaries, std::int64_t pages, int blocks, int pitch, const float* q, int rows,
            float* to, std::ptrdiff_t stride) {
  int r = 0;
  for (; r + 4 <= rows; r += 4)
    row_scores<4>(summaries, pages, blocks, pitch, q + static_cast<std::ptrdiff_t>(r) * pitch, to + r * stride, stride);
  q += static_cast<std::ptrdiff_t>(r) * pitch;
  to += r * stride;
  switch (rows - r) {
    case 1:
      return row_scores<1>(summaries, pages, blocks, pitch, q, to, stride);
    case 2:
      return row_scores<2>(summaries, pages, blocks, pitch, q, to, stride);
    case 3:
      return row_scores<3>(summaries, pages, blocks, pitch, q, to, stride);
    default:
      return;
  }
}

}  // namespace

extern const SummaryKernels summaries_table;
const SummaryKernels summaries_table{scores};

}  // namespace kvasir::select::KVASIR_TARGET
