// Panels of quantised weights and their products with int8 activations, written once for all formats.
// Included by the files of weights/quants, which are compiled per instruction set.
//
// A format is described by a struct F:
//   kBits     bits of a stored code u (2, 3, 4, 5, 6, 8)         kZero  the weight is d * (u - kZero) + m
//   kBlock    elements per block of the file (32 or 256)         kScales  scales per 32 elements (1 or 2)
//   kMin      whether m is used                                  kBlockBytes  bytes of a block in the file
//   kHeadBytes  bytes of the scales of 16 rows for one block
//   codes(block, u)              the kBlock codes of a file block, one byte each
//   pack_head(block, row, head)  writes the scales of a file block for one of the 16 rows
//   load_head(head, sub, d, m)   scales (and minima) of 16 rows for the 32 elements `sub` of the block
// A panel is the heads of all blocks, padded to 64 bytes, then the code planes of (32 elements x 16 rows) for every 32
// elements: planes never straddle cache lines.
// Byte 4*row + j of "group" g (0..7) is the code of element 4g+j of that row. Planes:
//   4 bits: 4 x 64 bytes, plane i holds group i in the low and group i+4 in the high nibble
//   2 bits: 2 x 64 bytes, plane i holds groups i, i+2, i+4, i+6 from low to high bits
//   1 bit:  64 bytes, bit g belongs to group g
//   8 bits: 8 x 64 bytes
// and 3 = 2 + 1 bits, 5 = 4 + 1, 6 = 4 + 2 (low bits first).
#pragma once

#include "kernel/activation_tile.hpp"
#include "kernel/interleave.hpp"
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

using namespace simd::KVASIR_TARGET;

constexpr int plane_bytes(int bits) { return 64 * bits; }

template <int kBits>
KVASIR_INLINE void load_codes(const std::byte* p, Bytes u[8]) {
  if constexpr (kBits == 8) {
    KVASIR_UNROLL(8)
    for (int g = 0; g < 8; ++g) u[g] = load_bytes(p + 64 * g);
  } else if constexpr (kBits >= 4) {
    const Bytes low = set1_bytes(15);
    KVASIR_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const Bytes x = load_bytes(p + 64 * i);
      u[i] = and_(x, low);
      u[i + 4] = and_(shift_right16<4>(x), low);
    }
    if constexpr (kBits == 5) {
      const Bytes h = load_bytes(p + 256);
      const Bytes bit = set1_bytes(16);
      u[0] = or_(u[0], and_(shift_left16<4>(h), bit));
      u[1] = or_(u[1], and_(shift_left16<3>(h), bit));
      u[2] = or_(u[2], and_(shift_left16<2>(h), bit));
      u[3] = or_(u[3], and_(shift_left16<1>(h), bit));
      u[4] = or_(u[4], and_(h, bit));
      u[5] = or_(u[5], and_(shift_right16<1>(h), bit));
      u[6] = or_(u[6], and_(shift_right16<2>(h), bit));
      u[7] = or_(u[7], and_(shift_right16<3>(h), bit));
    } else if constexpr (kBits == 6) {
      const Bytes bits = set1_bytes(48);
      KVASIR_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        const Bytes h = load_bytes(p + 256 + 64 * i);
        u[i] = or_(u[i], and_(shift_left16<4>(h), bits));
        u[i + 2] = or_(u[i + 2], and_(shift_left16<2>(h), bits));
        u[i + 4] = or_(u[i + 4], and_(h, bits));
        u[i + 6] = or_(u[i + 6], and_(shift_right16<2>(h), bits));
      }
    }
  } else {
    const Bytes low = set1_bytes(3);
    KVASIR_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const Bytes x = load_bytes(p + 64 * i);
      u[i] = and_(x, low);
      u[i + 2] = and_(shift_right16<2>(x), low);
      u[i + 4] = and_(shift_right16<4>(x), low);
      u[i + 6] = and_(shift_right16<6>(x), low);
    }
    if constexpr (kBits == 3) {
      const Bytes h = load_bytes(p + 128);
      const Bytes bit = set1_bytes(4);
      u[0] = or_(u[0], and_(shift_left16<2>(h), bit));
      u[1] = or_(u[1], and_(shift_left16<1>(h), bit));
      u[2] = or_(u[2], and_(h, bit));
      u[3] = or_(u[3], and_(shift_right16<1>(h), bit));
      u[4] = or_(u[4], and_(shift_right16<2>(h), bit));
      u[5] = or_(u[5], and_(shift_right16<3>(h), bit));
      u[6] = or_(u[6], and_(shift_right16<4>(h), bit));
      u[7] = or_(u[7], and_(shift_right16<5>(h), bit));
    }
  }
}

// One code of a 32-element sub-block, for unpacking single rows.
template <int kBits>
KVASIR_INLINE int code_at(const std::byte* planes, int row, int element) {
  const int g = element / 4;
  const int byte = 4 * row + element % 4;
  const auto at = [&](int offset) { return static_cast<int>(planes[offset + byte]); };
  if constexpr (kBits == 8) return at(64 * g);
  if constexpr (kBits >= 4) {
    int u = at(64 * (g % 4)) >> (g < 4 ? 0 : 4) & 15;
    if constexpr (kBits == 5) u |= (at(256) >> g & 1) << 4;
    if constexpr (kBits == 6) u |= (at(256 + 64 * (g % 2)) >> (g / 2 * 2) & 3) << 4;
    return u;
  }
  int u = at(64 * (g % 2)) >> (g / 2 * 2) & 3;
  if constexpr (kBits == 3) u |= (at(128) >> g & 1) << 2;
  return u;
}

// kCount fields of kWidth bits of the codes' bytes (words[kStep * j] >> kShift), j from low to high bits of a plane.
template <int kShift, int kWidth, int kStep, int kCount>
KVASIR_INLINE void store_plane(const std::uint32_t (*words)[kPanelRows], std::uint32_t* out) {
  constexpr std::uint32_t kMask = 0x01010101u * ((1u << kWidth) - 1);
  for (int r = 0; r < kPanelRows; ++r) {
    std::uint32_t plane = 0;
    KVASIR_UNROLL(8)
    for (int j = kCount - 1; j >= 0; --j) plane = plane << kWidth | (words[kStep * j][r] >> kShift & kMask);
    out[r] = plane;
  }
}

// Codes of 32 elements x 16 rows to planes: words[g][r] holds the four codes of group g and row r.
template <int kBits>
KVASIR_INLINE void store_planes(const std::uint32_t (*words)[kPanelRows], std::byte* out) {
  auto* p = reinterpret_cast<std::uint32_t*>(out);
  if constexpr (kBits == 8) {
    __builtin_memcpy(p, words, 512);
  } else if constexpr (kBits >= 4) {
    for (int i = 0; i < 4; ++i) store_plane<0, 4, 4, 2>(words + i, p + 16 * i);
    if constexpr (kBits == 5) store_plane<4, 1, 1, 8>(words, p + 64);
    if constexpr (kBits == 6)
      for (int i = 0; i < 2; ++i) store_plane<4, 2, 2, 4>(words + i, p + 64 + 16 * i);
  } else {
    for (int i = 0; i < 2; ++i) store_plane<0, 2, 2, 4>(words + i, p + 16 * i);
    if constexpr (kBits == 3) store_plane<2, 1, 1, 8>(words, p + 32);
  }
}

template <class F>
struct IntPanels {
  static constexpr int kSubs = F::kBlock / 32;
  static constexpr int kPlanes = plane_bytes(F::kBits);

  static std::int64_t head_bytes(std::int64_t k) { return (k / F::kBlock * F::kHeadBytes + 63) / 64 * 64; }
  static std::int64_t panel_bytes(std::int64_t k) { return head_bytes(k) + k / 32 * kPlanes; }

  // In steps of up to 256 elements, each a pass of its own over buffers in the L1 cache (a pass that read what the one
  // before has just written in other widths would wait for every store): codes, words of 16 rows side by side, planes.
  static void pack(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
    constexpr std::int64_t kStep = 256 / F::kBlock;
    alignas(64) std::byte codes[kPanelRows][256];
    alignas(64) std::uint32_t words[64][kPanelRows];
    alignas(64) static constexpr std::byte kZeros[F::kBlockBytes] = {};
    const std::byte* code_rows[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) code_rows[r] = codes[r];
    std::byte* planes = panel + head_bytes(k);
    const std::int64_t blocks = k / F::kBlock;
    for (std::int64_t first = 0; first < blocks; first += kStep) {
      const auto n = static_cast<int>(blocks - first < kStep ? blocks - first : kStep);
      for (int r = 0; r < kPanelRows; ++r) {
        for (int b = 0; b < n; ++b) {
          const std::byte* block = rows[r] ? rows[r] + (first + b) * F::kBlockBytes : kZeros;
          F::codes(block, reinterpret_cast<std::uint8_t*>(codes[r]) + b * F::kBlock);
          F::pack_head(block, r, panel + (first + b) * F::kHeadBytes);
        }
      }
      interleave_words(code_rows, n * F::kBlock / 4, words[0]);
      for (int s = 0; s < n * kSubs; ++s, planes += kPlanes) store_planes<F::kBits>(words + 8 * s, planes);
    }
  }

  static void unpack_row(const std::byte* panel, int row, std::int64_t k, float* out) {
    const std::byte* planes = panel + head_bytes(k);
    for (std::int64_t b = 0; b < k / F::kBlock; ++b) {
      for (int s = 0; s < kSubs; ++s, out += 32, planes += kPlanes) {
        F32 d[2] = {zero(), zero()};
        F32 m[2] = {zero(), zero()};
        F::load_head(panel + b * F::kHeadBytes, s, d, m);
        float scale[2][16];
        float minimum[2][16];
        for (int i = 0; i < F::kScales; ++i) {
          store(scale[i], d[i]);
          store(minimum[i], m[i]);
        }
        for (int e = 0; e < 32; ++e) {
          const int i = F::kScales == 2 ? e / 16 : 0;
          const float x = scale[i][row] * static_cast<float>(code_at<F::kBits>(planes, row, e) - F::kZero);
          out[e] = F::kMin ? x + minimum[i][row] : x;
        }
      }
    }
  }

  static constexpr int kHalves = F::kScales;
  static constexpr int kGroups = 8 / kHalves;  // groups of 4 elements per scale

  // Integer sums are started at the bits of the float 1.5 * 2^23: read as a float, the sum s is then 1.5 * 2^23 + s,
  // exactly
  // (|s| < 2^20). One fma with the scale d takes both conversion and product, fma(1.5 * 2^23 + s, d, -1.5 * 2^23 * d),
  // and its result is s * d rounded once, because d (at most 19 significant bits) times 1.5 * 2^23 is exact.
  static constexpr std::int32_t kSumStart = 0x4b400000;
  struct Scale {
    F32 d[kHalves];
    F32 offset[kHalves];  // -1.5 * 2^23 * d
    F32 m[kHalves];
  };
  KVASIR_INLINE void load_scale(const std::byte* head, int sub, Scale& s) {
    F::load_head(head, sub, s.d, s.m);
    KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) s.offset[h] = mul(s.d[h], set1(-12582912.0f));
  }

  // acc += (sum of code products of one 32-block, scaled) for one column. t[h] is kSumStart plus the exact integer sum
  // over half h of (u - kZero) * q; with one scale t[0] is the whole.
  KVASIR_INLINE F32 fold(F32 acc, const I32* t, const Scale& s, const Int8Tile& x, std::int64_t i) {
    F32 scaled = fma(bits_to_f32(t[0]), s.d[0], s.offset[0]);
    if constexpr (kHalves == 2) scaled = add(scaled, fma(bits_to_f32(t[1]), s.d[1], s.offset[1]));
    acc = fma(scaled, set1(x.d[i]), acc);
    if constexpr (F::kMin && kHalves == 1) acc = fma(s.m[0], set1(x.dsum[i]), acc);
    if constexpr (F::kMin && kHalves == 2) {
      acc = fma(s.m[0], set1(x.half_dsum[2 * i]), acc);
      acc = fma(s.m[1], set1(x.half_dsum[2 * i + 1]), acc);
    }
    return acc;
  }

  static constexpr int kMaxCode = (1 << F::kBits) - 1;
  // Without VNNI codes above 127 would saturate the 16-bit pair sums: go through signed weights instead.
  static constexpr bool kSigned = !KVASIR_HAS_VNNI && kMaxCode > 127;

  // kSumStart plus the exact integer sums of (u - kZero) * q for one column with signed q.
  KVASIR_INLINE void sums(const Bytes* u, const Int8Tile& x, std::int64_t i, I32* t) {
    const std::int8_t* q = x.q + 32 * i;
    for (int h = 0; h < kHalves; ++h) {
      if constexpr (kSigned) {
        t[h] = set1_i32(kSumStart);
      } else if constexpr (F::kZero != 0) {
        const std::int32_t sum = kHalves == 1 ? x.half_sum[2 * i] + x.half_sum[2 * i + 1] : x.half_sum[2 * i + h];
        t[h] = set1_i32(kSumStart - F::kZero * sum);
      } else {
        t[h] = set1_i32(kSumStart);
      }
      KVASIR_UNROLL(8)
      for (int g = 0; g < kGroups; ++g) {
        const Bytes a = broadcast4(q + 4 * (kGroups * h + g));
        const Bytes w = u[kGroups * h + g];
        t[h] = kSigned ? dot_ss(t[h], w, a) : dot_us(t[h], w, a);
      }
    }
  }

  // P panels side by side past C columns: four streams of memory keep more of it in flight than one, and the hardware
  // prefetcher, which stops at every 4 KB page, is helped by prefetching kPrefetch bytes ahead in each.
  static constexpr int kPrefetch = 2048;

  template <int P, int C>
  static void gemv(const MatmulArgs& args, std::int64_t panel) {
    const std::int64_t stride = panel_bytes(args.k);
    const Int8Tile x = int8_tile(*args.x, 0);
    const std::byte* head = args.panels + panel * stride;
    const std::byte* planes = head + head_bytes(args.k);
    F32 acc[P][C];
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) acc[p][c] = zero();
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < args.k / F::kBlock; ++b, head += F::kHeadBytes) {
      for (int s = 0; s < kSubs; ++s, i += C, planes += kPlanes) {
        KVASIR_UNROLL(4)
        for (int p = 0; p < P; ++p) {
          const std::byte* codes = planes + p * stride;
          KVASIR_UNROLL(8)
          for (int line = 0; line < kPlanes; line += 64) __builtin_prefetch(codes + kPrefetch + line, 0, 3);
          Bytes u[8];
          Scale scale;
          load_codes<F::kBits>(codes, u);
          if constexpr (kSigned)
            for (auto& w : u) w = sub8(w, set1_bytes(F::kZero));
          load_scale(head + p * stride, s, scale);
          KVASIR_UNROLL(4)
          for (int c = 0; c < C; ++c) {
            I32 t[2];
            sums(u, x, i + c, t);
            acc[p][c] = fold(acc[p][c], t, scale, x, i + c);
          }
        }
      }
    }
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) store_rows(args, panel + p, c, acc[p][c]);
  }

  template <int C>
  static void gemv_panels(const MatmulArgs& args) {
    constexpr int kStreams = 4;
    std::int64_t p = args.panel_begin;
    for (; p + kStreams <= args.panel_end; p += kStreams) gemv<kStreams, C>(args, p);
    for (; p < args.panel_end; ++p) gemv<1, C>(args, p);
  }

  KVASIR_INLINE void store_rows(const MatmulArgs& args, std::int64_t panel, std::int64_t column, F32 acc) {
    const std::int64_t row = panel * kPanelRows;
    float* out = args.out + column * args.ldo + row;
    if (row + kPanelRows <= args.rows) {
      store(out, acc);
    } else {
      store_n(out, acc, static_cast<int>(args.rows - row));
    }
  }

  // P panels against a whole tile of columns: the codes of a 32-block are unpacked once into registers and stream past
  // the tile's activations; accumulators (P x 64 columns x 64 bytes) live in the L1 cache. With VNNI the unsigned
  // operand is the activation (stored plus 128), so the correction -128 * sum(w) is per row and costs nothing per
  // column.
  template <int P>
  static void gemm(const MatmulArgs& args, std::int64_t panel, std::int64_t first) {
    const std::int64_t stride = panel_bytes(args.k);
    alignas(64) float acc[kTileColumns][P][16];
    const Int8Tile x = int8_tile(*args.x, first);
    const auto columns = static_cast<int>(x.columns);
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store(acc[c][p], zero());
    const std::byte* head = args.panels + panel * stride;
    const std::byte* planes = head + head_bytes(args.k);
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < args.k / F::kBlock; ++b, head += F::kHeadBytes) {
      for (int s = 0; s < kSubs; ++s, i += columns, planes += kPlanes)
        block<P>(head, planes, s, stride, x, i, columns, acc);
    }
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store_rows(args, panel + p, first + c, load(acc[c][p]));
  }

  template <int P>
  KVASIR_INLINE void block(const std::byte* head, const std::byte* planes, int s, std::int64_t stride,
                           const Int8Tile& x, std::int64_t i, int columns, float (*acc)[P][16]) {
    Bytes w[P][8];
    Scale scale[P];
    I32 correction[P][kHalves];
    for (int p = 0; p < P; ++p) {
      load_codes<F::kBits>(planes + p * stride, w[p]);
      load_scale(head + p * stride, s, scale[p]);
      if constexpr (KVASIR_HAS_VNNI || kSigned) {
        if constexpr (F::kZero != 0)
          for (auto& v : w[p]) v = sub8(v, set1_bytes(F::kZero));
      }
#if KVASIR_HAS_VNNI
      for (int h = 0; h < kHalves; ++h) {
        I32 sum = zero_i32();
        for (int g = 0; g < kGroups; ++g) sum = dot_us(sum, set1_bytes(128), w[p][kGroups * h + g]);
        correction[p][h] = sub(set1_i32(kSumStart), sum);
      }
#endif
    }
    int c = 0;
#if KVASIR_HAS_VNNI
    // Two panels times kColumns columns are eight independent chains of dot products: one chain alone would fill the
    // scheduler with instructions that wait 5 cycles for their predecessor.
    constexpr int kColumns = kHalves == 1 ? 4 : 2;
    for (; c + kColumns <= columns; c += kColumns) columns_of<P, kColumns>(w, scale, correction, x, i + c, acc + c);
    for (; c < columns; ++c) columns_of<P, 1>(w, scale, correction, x, i + c, acc + c);
#else
    for (; c < columns; ++c)
      for (int p = 0; p < P; ++p) {
        I32 t[2];
        sums(w[p], x, i + c, t);
        store(acc[c][p], fold(load(acc[c][p]), t, scale[p], x, i + c));
      }
    (void)correction;
#endif
  }

  // P panels times C columns of one 32-block, activations unsigned (VNNI only).
  template <int P, int C>
  KVASIR_INLINE void columns_of(const Bytes (*w)[8], const Scale* scale, const I32 (*correction)[kHalves],
                                const Int8Tile& x, std::int64_t i, float (*acc)[P][16]) {
    I32 t[C][P][kHalves];
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) t[c][p][h] = correction[p][h];
    const std::int8_t* q = x.q + 32 * i;
    KVASIR_UNROLL(8)
    for (int g = 0; g < 8; ++g) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) {
      const Bytes a = broadcast4(q + 32 * c + 4 * g);
      KVASIR_UNROLL(2)
      for (int p = 0; p < P; ++p) t[c][p][g / kGroups] = dot_us(t[c][p][g / kGroups], a, w[p][g]);
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) store(acc[c][p], fold(load(acc[c][p]), t[c][p], scale[p], x, i + c));
  }

  static void matmul(const MatmulArgs& args) {
    switch (args.x->many() ? 0 : args.x->n) {
      case 1:
        return gemv_panels<1>(args);
      case 2:
        return gemv_panels<2>(args);
      case 3:
        return gemv_panels<3>(args);
      case 4:
        return gemv_panels<4>(args);
      default:
        break;
    }
    // Tile by tile, so that its activations stay in the L2 cache for all panels of the call.
    constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 ? 2 : 1;
    for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
      std::int64_t p = args.panel_begin;
      for (; p + kPanels <= args.panel_end; p += kPanels) gemm<kPanels>(args, p, first);
      for (; p < args.panel_end; ++p) gemm<1>(args, p, first);
    }
  }

  static constexpr PanelFormat format() {
    return {ActivationKind::kInt8, F::kBlock, panel_bytes, pack, unpack_row, matmul};
  }

  // The definition of the file's format, by the same scales and codes.
  static void dequantise(const std::byte* row, float* out, std::int64_t n) {
    alignas(64) std::byte head[F::kHeadBytes];
    std::uint8_t codes[F::kBlock];
    for (std::int64_t b = 0; b < n / F::kBlock; ++b, row += F::kBlockBytes) {
      F::codes(row, codes);
      for (auto& h : head) h = std::byte{0};
      F::pack_head(row, 0, head);
      for (int s = 0; s < kSubs; ++s, out += 32) {
        F32 d[2] = {zero(), zero()};
        F32 m[2] = {zero(), zero()};
        F::load_head(head, s, d, m);
        float scale[2][16], minimum[2][16];
        for (int i = 0; i < 2; ++i) {
          store(scale[i], d[i]);
          store(minimum[i], m[i]);
        }
        for (int e = 0; e < 32; ++e) {
          const int i = F::kScales == 2 ? e / 16 : 0;
          const float x = scale[i][0] * static_cast<float>(codes[32 * s + e] - F::kZero);
          out[e] = F::kMin ? x + minimum[i][0] : x;
        }
      }
    }
  }
};

// Helpers for heads: 16 half floats per quantity.
KVASIR_INLINE void put_half(const std::byte* from, int row, std::byte* head) {
  __builtin_memcpy(head + 2 * row, from, 2);
}
KVASIR_INLINE F32 get_halves(const std::byte* head) { return load_f16(reinterpret_cast<const std::uint16_t*>(head)); }
KVASIR_INLINE float half_at(const std::byte* p) {
  std::uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return simd::f16_to_f32(h);
}
KVASIR_INLINE void put_half_value(float x, std::byte* p) {
  const std::uint16_t h = simd::f32_to_f16(x);
  __builtin_memcpy(p, &h, 2);
}

}  // namespace kvasir::kernel::KVASIR_TARGET
