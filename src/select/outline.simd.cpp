#include "select/outline.hpp"

#include "simd/vec.hpp"

namespace kvasir::select::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

constexpr float kMostCode = 63;    // of a representative, beside 64
constexpr float kMostAsked = 127;  // of a query
constexpr float kLeast = 1e-20f;
constexpr float kMostHalf = 65504;

// What is no number is `least`.
KVASIR_INLINE float at_least(float x, float least) { return x > least ? x : least; }

// Where a channel hardly moves it may do so later: its reach is not less than a part of its own size, nor of the mean
// size.
void frame(const std::byte* const* summaries, int pages, int blocks, int width, int pitch, const OutlineFrame& to) {
  constexpr float kPart = 1.0f / 64;
  F32 sizes = zero();
  for (int c = 0; c < pitch; c += kLanes) {
    F32 low = set1(kMostHalf), high = set1(-kMostHalf);
    for (int p = 0; p < pages; ++p)
      for (int b = 0; b < blocks; ++b) {
        const F32 x = load_f16(reinterpret_cast<const std::uint16_t*>(summaries[p]) + b * pitch + c);
        low = min(x, low);  // NaN leaves it
        high = max(x, high);
      }
    const F32 center = mul(add(low, high), set1(0.5f));
    const F32 own = mul(abs(center), set1(kPart));
    store(to.center + c, center);
    store(to.reach + c, max(mul(sub(high, low), set1(0.5f)), own));
    sizes = add(sizes, own);
  }
  const F32 mean = set1(at_least(reduce_add(sizes) / static_cast<float>(width), kLeast));
  for (int c = 0; c < pitch; c += kLanes) store(to.reach + c, max(load(to.reach + c), mean));
}

void draw(const std::byte* summary, int blocks, int pitch, const OutlineFrame& f, std::byte* tile, int lane) {
  const auto* half = reinterpret_cast<const std::uint16_t*>(summary);
  for (int b = 0; b < blocks; ++b, ++lane, half += pitch) {
    const auto place = [&](int c) __attribute__((always_inline)) {
      return div(sub(load_f16(half + c), load(f.center + c)), load(f.reach + c));
    };
    F32 sizes = zero();
    for (int c = 0; c < pitch; c += kLanes) sizes = max(abs(place(c)), sizes);
    const float most = at_least(reduce_max(sizes), kLeast);
    reinterpret_cast<float*>(tile)[lane] = most / kMostCode;
    const F32 inverse = set1(kMostCode / most);
    std::byte* to = tile + kOutlineBlocks * sizeof(float) + 4 * lane;
    for (int c = 0; c < pitch; c += kLanes) {
      const F32 y = min(max(mul(place(c), inverse), set1(-kMostCode)), set1(kMostCode));
      std::uint8_t bytes[kLanes];
      store_low_bytes(bytes, add(to_i32(y), set1_i32(64)));
      for (int i = 0; i < kLanes; i += 4, to += 4 * kOutlineBlocks) __builtin_memcpy(to, bytes + i, 4);
    }
  }
}

void ask(const float* asked, int rows, int pitch, const OutlineFrame& f, const OutlineRows& to) {
  for (int r = 0; r < rows; ++r, asked += pitch) {
    F32 base = zero(), sizes = zero();
    for (int c = 0; c < pitch; c += kLanes) {
      const F32 q = load(asked + c);
      base = fma(q, load(f.center + c), base);
      sizes = max(abs(mul(q, load(f.reach + c))), sizes);
    }
    const float most = at_least(reduce_max(sizes), kLeast);
    const F32 inverse = set1(kMostAsked / most);
    I32 sum = zero_i32();
    for (int c = 0; c < pitch; c += kLanes) {
      const F32 x = mul(mul(load(asked + c), load(f.reach + c)), inverse);
      const I32 code = to_i32(min(max(x, set1(-kMostAsked)), set1(kMostAsked)));
      store_low_bytes(to.codes + static_cast<std::ptrdiff_t>(r) * pitch + c, code);
      sum = add(sum, code);
    }
    to.factor[r] = most / kMostAsked;
    to.base[r] = reduce_add(base);
    to.start[r] = -64 * reduce_add(sum);
  }
}

// Sums of a tile for R rows; every row has two, so that none waits for itself.
template <int R>
KVASIR_INLINE void tile_scores(const std::byte* tile, int pitch, const OutlineRows& rows, int first, F32 (&to)[R]) {
  const std::byte* const at = tile + kOutlineBlocks * sizeof(float);
  const std::int8_t* const codes = rows.codes + static_cast<std::ptrdiff_t>(first) * pitch;
  I32 acc[2][R];
  KVASIR_UNROLL(4)
  for (int r = 0; r < R; ++r) {
    acc[0][r] = set1_i32(rows.start[first + r]);
    acc[1][r] = zero_i32();
  }
  KVASIR_UNROLL(1)
  for (int c = 0; c < pitch; c += 8) {
    KVASIR_UNROLL(2)
    for (int h = 0; h < 2; ++h) {
      const Bytes u = load_bytes(at + static_cast<std::ptrdiff_t>(kOutlineBlocks) * (c + 4 * h));
      KVASIR_UNROLL(4)
      for (int r = 0; r < R; ++r)
        acc[h][r] = dot_us(acc[h][r], u, broadcast4(codes + static_cast<std::ptrdiff_t>(r) * pitch + c + 4 * h));
    }
  }
  const F32 scale = load(reinterpret_cast<const float*>(tile));
  KVASIR_UNROLL(4)
  for (int r = 0; r < R; ++r)
    to[r] =
        fma(mul(scale, set1(rows.factor[first + r])), to_f32(add(acc[0][r], acc[1][r])), set1(rows.base[first + r]));
}

template <int R>
KVASIR_INLINE void row_scores(const std::byte* tile, int lane, std::int64_t count, int pitch, const OutlineRows& rows,
                              int first, float* scores, std::ptrdiff_t stride) {
  const std::size_t bytes = outline_tile_bytes(pitch);
  for (std::int64_t at = -lane; at < count; at += kOutlineBlocks, tile += bytes) {
    F32 x[R];
    tile_scores<R>(tile, pitch, rows, first, x);
    if (at >= 0 && at + kOutlineBlocks <= count) {
      KVASIR_UNROLL(4)
      for (int r = 0; r < R; ++r) store(scores + r * stride + at, x[r]);
      continue;
    }
    for (int r = 0; r < R; ++r) {
      alignas(64) float some[kLanes];
      store(some, x[r]);
      for (int i = 0; i < kLanes; ++i)
        if (at + i >= 0 && at + i < count) scores[r * stride + at + i] = some[i];
    }
  }
}

// Some tiles at a time, so that the rows behind the first four find them in the first-level cache.
void scores(const std::byte* tiles, int lane, std::int64_t count, int pitch, const OutlineRows& rows, int n,
            float* scores, std::ptrdiff_t stride) {
  constexpr std::int64_t kTiles = 4;
  while (count > 0) {
    const std::int64_t some = count < kTiles * kOutlineBlocks - lane ? count : kTiles * kOutlineBlocks - lane;
    int r = 0;
    for (; r + 4 <= n; r += 4) row_scores<4>(tiles, lane, some, pitch, rows, r, scores + r * stride, stride);
    if (n - r == 1) row_scores<1>(tiles, lane, some, pitch, rows, r, scores + r * stride, stride);
    if (n - r == 2) row_scores<2>(tiles, lane, some, pitch, rows, r, scores + r * stride, stride);
    if (n - r == 3) row_scores<3>(tiles, lane, some, pitch, rows, r, scores + r * stride, stride);
    tiles += kTiles * static_cast<std::ptrdiff_t>(outline_tile_bytes(pitch));
    lane = 0;
    scores += some;
    count -= some;
  }
}

}  // namespace

extern const OutlineKernels outlines_table;
const OutlineKernels outlines_table{frame, draw, ask, scores};

}  // namespace kvasir::select::KVASIR_TARGET
