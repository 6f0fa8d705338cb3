// What qjl1 and turbo3/4 share: signs of a rotated vector, and products of rows with packed levels that lie evenly
// around zero.
//
// Sketch (QJL, Zandieh et al. 2024, arXiv 2406.03482, with an orthogonal projection S): of r in R^d keep |r| and
// z = sign(S r). For S uniform among rotations the mean of S^T z is d E|u_1| r / |r|, u uniform on the unit sphere, so
// that r^ = |r| / (d E|u_1|) S^T z is unbiased. Of r the root mean square h = |r| / sqrt(d) is stored, and every
// coordinate of S r^ is +- h sign_scale(d).
#pragma once

#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/int8_row.hpp"
#include "kv/families/packed/pack.hpp"
#include "kv/families/row_blocks.hpp"
#include "kv/families/sketch/strip.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// 1 / (sqrt(d) E|u_1|) = sqrt(pi / 2) (1 - 1 / 4d ...), d even: E|u_1| = 2 / pi in the plane, and two dimensions more
// take k / (k + 1) off, k the dimensions so far.
static inline float sign_scale(int d) {
  double mean = 0.63661977236758134308;
  for (int k = 2; k < d; k += 2) mean *= static_cast<double>(k) / (k + 1);
  return static_cast<float>(1.0 / (__builtin_sqrt(static_cast<double>(d)) * mean));
}

// codes[c * 128 + lane] = 1 where the strip is not negative.
KVASIR_INLINE void store_signs(const float* strip, int d, std::uint8_t* codes) {
  for (int c = 0; c < d; ++c)
    store_low_bytes(codes + c * kPageTokens, to_i32(at_least(load(strip + c * kLanes), zero())));
}

// codes[channel * 128 + token], below 2^B, to the page's panels: K has tokens for lanes, V channels.
template <Side side, int B>
static inline void pack_page(const std::uint8_t* codes, int d, std::byte* to) {
  if constexpr (side == Side::kKeys)
    pack_matrix<B>(codes, kPageTokens, d, to);
  else
    pack_matrix_transposed<B>(codes, d, kPageTokens, to);
}

// Up to kRowBlock rows of queries or weights.
struct ByteRows {
  static constexpr int kPitch = kernel::kMaxRotated;
  alignas(64) std::int8_t x[kRowBlock * kPitch];
  float scale[kRowBlock];
  std::int32_t sum[kRowBlock];

  void set(int row, const float* from, int n) {
    const Int8Row r = quantize_row(from, n, x + row * kPitch);
    scale[row] = r.scale;
    sum[row] = r.sum;
  }
};

// out[g] = sum over depth in [begin, end) of x (2 value - kLargest) for 16 lanes, exact. The rows are 0 outside.
template <int kLargest, int B, int G, class Map>
KVASIR_INLINE void centred_dots(const std::byte* panel, int begin, int end, const Map& map, const ByteRows& rows,
                                const std::byte* next, F32 (&out)[G]) {
  I32 acc[G];
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) acc[g] = dots_start<B, Map>(rows.sum[g]);
  panel_dots<B>(panel, begin, end, map, rows.x, ByteRows::kPitch, next, acc);
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) out[g] = to_f32(sub(add(acc[g], acc[g]), set1_i32(kLargest * rows.sum[g])));
}

// The same place in the page that is read next.
KVASIR_INLINE const std::byte* in_next(const PageRef& page, const std::byte* p) {
  return page.next ? page.next + (p - page.block) : p;
}

static inline const char* refuse_rotated(int d, Side, CodecParams* params) {
  if (params->group || params->unbiased) return "it has no parameters";
  return kernel::can_rotate(d) ? nullptr : "the head size must be a multiple of 16, at most 1024";
}

static inline std::uint64_t strip_seed(Side side, int layer, int kv_head, int round) {
  return kernel::rotation_seed(kStripSeed + static_cast<std::uint64_t>(round), layer, kv_head,
                               side == Side::kKeys ? 0 : 1);
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
