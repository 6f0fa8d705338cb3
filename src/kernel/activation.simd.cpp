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

// Blocks of a column that hold something else than numbers somewhere: the products are NaN. No integer could say so,
// and maxima and conversions would lose it.
void poison_int8(const Int8Tile& t, std::int64_t c, std::int64_t first, std::int64_t last) {
  for (std::int64_t b = first; b < last; ++b) {
    const std::int64_t i = b * t.columns + c;
    for (int j = 0; j < 32; ++j) t.q[32 * i + j] = 0;
    t.d[i] = t.dsum[i] = t.half_dsum[2 * i] = t.half_dsum[2 * i + 1] = __builtin_nanf("");
    t.half_sum[2 * i] = t.half_sum[2 * i + 1] = t.start[i] = 0;
  }
}

#if !KVASIR_HAS_VNNI
KVASIR_INLINE std::int32_t sum_of_pairs(std::int32_t pairs) {
  return static_cast<std::int16_t>(pairs) + static_cast<std::int16_t>(pairs >> 16);
}
#endif

// Of block `at`, whose halves' integers add up to s0 and s1.
KVASIR_INLINE void store_scales(const Int8Tile& t, std::int64_t at, float d, std::int32_t s0, std::int32_t s1) {
  t.d[at] = d;
  t.half_dsum[2 * at] = d * static_cast<float>(s0);
  t.half_dsum[2 * at + 1] = d * static_cast<float>(s1);
  t.dsum[at] = d * static_cast<float>(s0 + s1);
}
#if KVASIR_HAS_VNNI
KVASIR_INLINE void store_starts(const Int8Tile& t, std::int64_t at, std::int32_t s0, std::int32_t s1, bool many) {
  t.half_sum[2 * at] = many ? sum_start(s0) : s0;
  t.half_sum[2 * at + 1] = many ? sum_start(s1) : s1;
  t.start[at] = sum_start(s0 + s1);
}
#endif

// The blocks that are prepared together: their maxima and sums are reduced side by side.
constexpr int kTogether = 4;

// `count` (1 to kTogether) blocks of 32 elements of a column, numbers i, i + columns, ... (block * columns + column) of
// tile t.
template <int count>
KVASIR_INLINE void prepare_blocks(const Int8Tile& t, std::int64_t i, const float* x, [[maybe_unused]] bool many) {
  F32 largest[kTogether];
  KVASIR_UNROLL(4)
  for (int b = 0; b < kTogether; ++b)
    largest[b] = b < count ? max(abs(load(x + 32 * b)), abs(load(x + 32 * b + 16))) : zero();
  const F32 most = reduce_max4(largest);
  // Below 127 times the smallest normal number the quotient would overflow: such a block is 0.
  alignas(64) float d[kLanes], inverse[kLanes];
  store(d, div(most, set1(127.0f)));
  store(inverse, zero_if_less(most, set1(1.5e-36f), div(set1(127.0f), most)));
  I32 q[2 * kTogether];
  KVASIR_UNROLL(8)
  for (int h = 0; h < 2 * kTogether; ++h) {
    if (h >= 2 * count) {
      q[h] = zero_i32();
      continue;
    }
    q[h] = to_i32(mul(load(x + 16 * h), set1(inverse[h / 2])));
    store_low_bytes(t.q + 32 * (i + h / 2 * t.columns) + h % 2 * 16, q[h]);
  }
#if KVASIR_HAS_VNNI
  alignas(64) std::int32_t sums[kTogether + kLanes];
  store_i32(sums, reduce_add4(q));
  store_i32(sums + kTogether, reduce_add4(q + kTogether));
#endif
  KVASIR_UNROLL(4)
  for (int b = 0; b < count; ++b) {
    const std::int64_t at = i + b * t.columns;
#if KVASIR_HAS_VNNI
    const std::int32_t s0 = sums[2 * b], s1 = sums[2 * b + 1];
    store_starts(t, at, s0, s1, many);
#else
    const std::int32_t s0 = sum_of_pairs(t.half_sum[2 * at] = pair_sums(t.q + 32 * at));
    const std::int32_t s1 = sum_of_pairs(t.half_sum[2 * at + 1] = pair_sums(t.q + 32 * at + 16));
#endif
    store_scales(t, at, d[b], s0, s1);
  }
}

#if KVASIR_HAS_VNNI
// One block of each of 16 columns from number i on, as prepare_blocks to the bit: what belongs to a column is computed
// in a lane of its own.
KVASIR_INLINE void prepare_columns(const Int8Tile& t, std::int64_t i, const float* x, std::int64_t ldx, bool many) {
  F32 largest[kLanes];
  KVASIR_UNROLL(16)
  for (int c = 0; c < kLanes; ++c) largest[c] = max(abs(load(x + c * ldx)), abs(load(x + c * ldx + 16)));
  const F32 most = reduce_maxima(largest);
  alignas(64) float d[kLanes], inverse[kLanes];
  store(d, div(most, set1(127.0f)));
  store(inverse, zero_if_less(most, set1(1.5e-36f), div(set1(127.0f), most)));
  alignas(64) std::int32_t fours[8 * kLanes];  // sums of four elements
  KVASIR_UNROLL(8)
  for (int p = 0; p < 8; ++p) {  // two columns
    const auto part = [&](int h) __attribute__((always_inline)) {
      const int c = 2 * p + h / 2;
      return to_i32(mul(load(x + c * ldx + h % 2 * 16), set1(inverse[c])));
    };
    const Bytes q = to_signed_bytes(part(0), part(1), part(2), part(3));
    store_bytes(t.q + 32 * (i + 2 * p), q);
    store_i32(fours + p * kLanes, dot_us(zero_i32(), set1_bytes(1), q));
  }
  alignas(64) std::int32_t half[2 * kLanes];
  for (int j = 0; j < 2 * kLanes; ++j) half[j] = fours[4 * j] + fours[4 * j + 1] + fours[4 * j + 2] + fours[4 * j + 3];
  for (int c = 0; c < kLanes; ++c) {
    store_starts(t, i + c, half[2 * c], half[2 * c + 1], many);
    store_scales(t, i + c, d[c], half[2 * c], half[2 * c + 1]);
  }
}
#endif

// Blocks of columns [begin, end) of one tile, 16 columns side by side where there are as many and all are finite, else
// a few blocks of every column at a time: the lines of the tile that are being filled are whole and stay in the L1
// cache. (Column by column every store would go to another line, 2 KB from the one before.)
void prepare_int8(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                  Elements e) {
  const Int8Tile t = int8_tile(a, begin);
  const std::int64_t c0 = begin % kTileColumns;
  const bool many = a.many();
  const std::int64_t first = e.begin / 32, last = e.end / 32;
  std::uint64_t bad = 0;  // columns that are not finite, which no conversion to integers must see
  static_assert(kTileColumns <= 64);
  for (std::int64_t c = 0; c < end - begin; ++c) {
    if (all_finite(x + c * ldx, e.end - e.begin)) continue;
    bad |= std::uint64_t{1} << c;
    poison_int8(t, c0 + c, first, last);
  }
  std::int64_t done = 0;
#if KVASIR_HAS_VNNI
  if (bad == 0)
    for (; done + kLanes <= end - begin; done += kLanes)
      for (std::int64_t b = first; b < last; ++b)
        prepare_columns(t, b * t.columns + c0 + done, x + done * ldx + 32 * (b - first), ldx, many);
#endif
  for (std::int64_t b = first; b < last; b += kTogether) {
    const std::int64_t rest = last - b;
    for (std::int64_t c = done; c < end - begin; ++c) {
      if (bad >> c & 1) continue;
      const std::int64_t i = b * t.columns + c0 + c;
      const float* const from = x + c * ldx + 32 * (b - first);
      if (rest >= kTogether) {
        prepare_blocks<kTogether>(t, i, from, many);
      } else if (rest == 3) {
        prepare_blocks<3>(t, i, from, many);
      } else if (rest == 2) {
        prepare_blocks<2>(t, i, from, many);
      } else {
        prepare_blocks<1>(t, i, from, many);
      }
    }
  }
}

// Transposes elements of columns [begin, end) of one tile into its strips, 16 numbers at a time so that the lines
// written stay in the L1 cache. A number stands for kElements elements; numbers(from, n, room) says where those of n
// elements are, `room` being space for 16.
template <class Number, int kElements, class F>
KVASIR_INLINE void prepare_strips(const Activations& a, std::int64_t begin, std::int64_t end, const float* x,
                                  std::int64_t ldx, Elements e, F numbers) {
  std::int64_t columns;
  auto* tile = reinterpret_cast<Number*>(activation_tile(a, begin, columns));
  const std::int64_t c0 = begin % kTileColumns, steps = (a.k + kElements - 1) / kElements;
  const Strips strips = Strips::of(columns);
  for (std::int64_t k = e.begin; k < e.end; k += 16 * kElements) {
    const int n = static_cast<int>(e.end - k < 16 * kElements ? e.end - k : 16 * kElements);
    for (std::int64_t c = c0; c < c0 + end - begin; ++c) {
      const std::int64_t strip = strips.holding(c);
      const std::int64_t first = strips.first(strip), width = strips.columns(strip);
      Number* const to = tile + first * steps + c - first;
      Number room[16];
      const Number* const from = numbers(x + (c - c0) * ldx + k - e.begin, n, room);
      for (int j = 0; j < (n + kElements - 1) / kElements; ++j) to[(k / kElements + j) * width] = from[j];
    }
  }
}

void prepare_f32(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                 Elements e) {
  prepare_strips<float, 1>(a, begin, end, x, ldx, e, [](const float* from, int, float*) { return from; });
}

#if KVASIR_HAS_BF16
void prepare_bf16(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                  Elements e) {
  prepare_strips<std::uint32_t, 2>(a, begin, end, x, ldx, e, [](const float* from, int n, std::uint32_t* room) {
    store_bytes(room, to_bf16(load_n(from, n), load_n(from + 16, n > 16 ? n - 16 : 0)));
    return static_cast<const std::uint32_t*>(room);
  });
}
#endif

void prepare_rounded(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                     Elements e) {
  const std::int64_t bytes = activation_bytes(a.kind, a.k);
  for (std::int64_t c = begin; c < end; ++c, x += ldx) {
    auto* const to = reinterpret_cast<std::uint16_t*>(a.data + c * bytes);
    for (std::int64_t k = e.begin; k < e.end; k += kLanes) {
      const std::int64_t n = e.end - k;
      if (n >= kLanes)
        store_bf16(to + k, load(x + k - e.begin));
      else  // the last ones of the column, with the zeros behind them up to 16
        store_bf16(to + k, load_n(x + k - e.begin, static_cast<int>(n)));
    }
    if (e.end != a.k) continue;
    for (std::int64_t k = (a.k + kLanes - 1) / kLanes * kLanes; k < bytes / 2; ++k) to[k] = 0;
  }
}

void prepare(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx, Elements e) {
  while (begin < end) {
    const std::int64_t tile_end = (begin / kTileColumns + 1) * kTileColumns;
    const std::int64_t stop = tile_end < end ? tile_end : end;
    if (a.kind == ActivationKind::kInt8) {
      prepare_int8(a, begin, stop, x, ldx, e);
#if KVASIR_HAS_BF16
    } else if (a.kind == ActivationKind::kBf16) {
      prepare_bf16(a, begin, stop, x, ldx, e);
#endif
    } else if (a.kind == ActivationKind::kRounded) {
      prepare_rounded(a, begin, stop, x, ldx, e);
    } else {
      prepare_f32(a, begin, stop, x, ldx, e);
    }
    x += (stop - begin) * ldx;
    begin = stop;
  }
}

}  // namespace

extern const ActivationKernels activation_table;
const ActivationKernels activation_table = {prepare};

}  // namespace kvasir::kernel::KVASIR_TARGET
