#include "kernel/activation_tile.hpp"
#include "kernel/matmul.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// 0 * x is NaN for what is not finite.
bool all_finite(const float* x, std::int64_t n) {
  F32 sum[2] = {zero(), zero()};
  for (std::int64_t i = 0; i < n; i += 32) {
    sum[0] = fma(load(x + i), zero(), sum[0]);
    sum[1] = fma(load(x + i + 16), zero(), sum[1]);
  }
  return reduce_add(add(sum[0], sum[1])) == 0.0f;
}

// A column that holds something else than numbers: the products are NaN. No integer could say so, and maxima and
// conversions would lose it.
void poison_int8(const Int8Tile& t, std::int64_t c, std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t i = b * t.columns + c;
    for (int j = 0; j < 32; ++j) t.q[32 * i + j] = 0;
    t.d[i] = t.dsum[i] = t.half_dsum[2 * i] = t.half_dsum[2 * i + 1] = __builtin_nanf("");
    t.half_sum[2 * i] = t.half_sum[2 * i + 1] = 0;
  }
}

#if !KVASIR_HAS_VNNI
KVASIR_INLINE std::int32_t sum_of_pairs(std::int32_t pairs) {
  return static_cast<std::int16_t>(pairs) + static_cast<std::int16_t>(pairs >> 16);
}
#endif

// One block of 32 elements, number i = block * columns + column of tile t.
KVASIR_INLINE void prepare_block(const Int8Tile& t, std::int64_t i, const float* x, std::int32_t flip) {
  const F32 x0 = load(x);
  const F32 x1 = load(x + 16);
  const float largest = reduce_max(max(abs(x0), abs(x1)));
  const float d = largest / 127.0f;
  // Below 127 times the smallest normal number the quotient would overflow: such a block is 0.
  const F32 inverse = set1(largest >= 1.5e-36f ? 127.0f / largest : 0.0f);
  const I32 q0 = to_i32(mul(x0, inverse));
  const I32 q1 = to_i32(mul(x1, inverse));
  store_low_bytes(t.q + 32 * i, add(q0, set1_i32(flip)));
  store_low_bytes(t.q + 32 * i + 16, add(q1, set1_i32(flip)));
#if KVASIR_HAS_VNNI
  const std::int32_t s0 = reduce_add(q0);
  const std::int32_t s1 = reduce_add(q1);
  t.half_sum[2 * i] = s0;
  t.half_sum[2 * i + 1] = s1;
#else
  t.half_sum[2 * i] = pair_sums(t.q + 32 * i);
  t.half_sum[2 * i + 1] = pair_sums(t.q + 32 * i + 16);
  const std::int32_t s0 = sum_of_pairs(t.half_sum[2 * i]);
  const std::int32_t s1 = sum_of_pairs(t.half_sum[2 * i + 1]);
#endif
  t.d[i] = d;
  t.half_dsum[2 * i] = d * static_cast<float>(s0);
  t.half_dsum[2 * i + 1] = d * static_cast<float>(s1);
  t.dsum[i] = d * static_cast<float>(s0 + s1);
}

// Columns [begin, end) of one tile, a few blocks of every column at a time: the lines of the tile that are being filled
// are whole and stay in the L1 cache. (Column by column every store would go to another line, 2 KB from the one
// before.)
void prepare_int8(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx) {
  const Int8Tile t = int8_tile(a, begin);
  const std::int64_t c0 = begin % kTileColumns;
  const std::int32_t flip = KVASIR_HAS_VNNI && a.many() ? -128 : 0;
  const std::int64_t blocks = a.k / 32;
  std::uint64_t bad = 0;  // columns that are not finite, which no conversion to integers must see
  static_assert(kTileColumns <= 64);
  for (std::int64_t c = 0; c < end - begin; ++c) {
    if (all_finite(x + c * ldx, a.k)) continue;
    bad |= std::uint64_t{1} << c;
    poison_int8(t, c0 + c, blocks);
  }
  constexpr std::int64_t kStep = 4;
  for (std::int64_t b0 = 0; b0 < blocks; b0 += kStep) {
    const std::int64_t b1 = b0 + kStep < blocks ? b0 + kStep : blocks;
    for (std::int64_t c = 0; c < end - begin; ++c) {
      if (bad >> c & 1) continue;
      for (std::int64_t b = b0; b < b1; ++b) prepare_block(t, b * t.columns + c0 + c, x + c * ldx + 32 * b, flip);
    }
  }
}

// Transposes columns [begin, end) of one tile, 16 elements at a time so that the lines written stay in the L1 cache.
void prepare_f32(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx) {
  std::int64_t columns;
  auto* tile = reinterpret_cast<float*>(activation_tile(a, begin, columns));
  const std::int64_t c0 = begin % kTileColumns;
  const Strips strips = Strips::of(columns);
  for (std::int64_t k = 0; k < a.k; k += 16) {
    const int n = static_cast<int>(a.k - k < 16 ? a.k - k : 16);
    for (std::int64_t c = c0; c < c0 + end - begin; ++c) {
      const std::int64_t strip = strips.holding(c);
      const std::int64_t first = strips.first(strip), width = strips.columns(strip);
      float* const to = tile + first * a.k + c - first;
      for (int j = 0; j < n; ++j) to[(k + j) * width] = x[(c - c0) * ldx + k + j];
    }
  }
}

void prepare(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx) {
  while (begin < end) {
    const std::int64_t tile_end = (begin / kTileColumns + 1) * kTileColumns;
    const std::int64_t stop = tile_end < end ? tile_end : end;
    if (a.kind == ActivationKind::kInt8) {
      prepare_int8(a, begin, stop, x, ldx);
    } else {
      prepare_f32(a, begin, stop, x, ldx);
    }
    x += (stop - begin) * ldx;
    begin = stop;
  }
}

}  // namespace

extern const ActivationKernels activation_table;
const ActivationKernels activation_table = {prepare};

}  // namespace kvasir::kernel::KVASIR_TARGET
