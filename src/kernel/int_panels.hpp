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
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

using namespace simd::KVASIR_TARGET;

constexpr int plane_bytes(int bits) { return 64 * bits; }

template <int kBits>
KVASIR_INLINE void load_codes(const std::byte* p, Bytes u[8]) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) u[g] = load_bytes(p + 64 * g);
  } else if constexpr (kBits >= 4) {
    const Bytes low = set1_bytes(15);
#pragma GCC unroll 4
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
#pragma GCC unroll 2
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
#pragma GCC unroll 2
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

// Codes of 16 rows x 32 elements (row r at codes + r * stride) to planes.
template <int kBits>
KVASIR_INLINE void store_planes(const std::uint8_t* codes, std::int64_t stride, std::byte* out) {
  alignas(64) std::uint32_t word[8][16];  // [group][row], four codes each
  for (int r = 0; r < 16; ++r) {
    std::uint32_t w[8];
    __builtin_memcpy(w, codes + r * stride, 32);
    for (int g = 0; g < 8; ++g) word[g][r] = w[g];
  }
  auto* p = reinterpret_cast<std::uint32_t*>(out);
  for (int r = 0; r < 16; ++r) {
    if constexpr (kBits == 8) {
      for (int g = 0; g < 8; ++g) p[16 * g + r] = word[g][r];
    } else if constexpr (kBits >= 4) {
      constexpr std::uint32_t kLow = 0x0f0f0f0f;
      for (int i = 0; i < 4; ++i) p[16 * i + r] = (word[i][r] & kLow) | (word[i + 4][r] & kLow) << 4;
    } else {
      constexpr std::uint32_t kLow = 0x03030303;
      for (int i = 0; i < 2; ++i)
        p[16 * i + r] = (word[i][r] & kLow) | (word[i + 2][r] & kLow) << 2 | (word[i + 4][r] & kLow) << 4 |
                        (word[i + 6][r] & kLow) << 6;
    }
    constexpr std::uint32_t kOne = 0x01010101;
    if constexpr (kBits == 5 || kBits == 3) {
      std::uint32_t bits = 0;
      for (int g = 0; g < 8; ++g) bits |= (word[g][r] >> (kBits - 1) & kOne) << g;
      p[16 * (kBits - 1) + r] = bits;
    }
    if constexpr (kBits == 6) {
      for (int i = 0; i < 2; ++i) {
        std::uint32_t bits = 0;
        for (int j = 0; j < 4; ++j) bits |= (word[i + 2 * j][r] >> 4 & 3 * kOne) << (2 * j);
        p[64 + 16 * i + r] = bits;
      }
    }
  }
}

template <class F>
struct IntPanels {
  static constexpr int kSubs = F::kBlock / 32;
  static constexpr int kPlanes = plane_bytes(F::kBits);

  static std::int64_t head_bytes(std::int64_t k) { return (k / F::kBlock * F::kHeadBytes + 63) / 64 * 64; }
  static std::int64_t panel_bytes(std::int64_t k) { return head_bytes(k) + k / 32 * kPlanes; }

  static void pack(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
    alignas(64) std::uint8_t codes[kPanelRows][F::kBlock];
    alignas(64) static constexpr std::byte kZeros[F::kBlockBytes] = {};
    std::byte* planes = panel + head_bytes(k);
    for (std::int64_t b = 0; b < k / F::kBlock; ++b) {
      for (int r = 0; r < kPanelRows; ++r) {
        const std::byte* block = rows[r] ? rows[r] + b * F::kBlockBytes : kZeros;
        F::codes(block, codes[r]);
        F::pack_head(block, r, panel + b * F::kHeadBytes);
      }
      for (int s = 0; s < kSubs; ++s, planes += kPlanes) store_planes<F::kBits>(codes[0] + 32 * s, F::kBlock, planes);
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

  // acc += (sum of code products of one 32-block, scaled) for one column. t[h] is the exact integer sum over half h of
  // (u - kZero) * q; with one scale t[0] is the whole.
  KVASIR_INLINE F32 fold(F32 acc, const I32* t, const F32* d, const F32* m, const Int8Tile& x, std::int64_t i) {
    F32 scaled = mul(to_f32(t[0]), d[0]);
    if constexpr (F::kScales == 2) scaled = fma(to_f32(t[1]), d[1], scaled);
    acc = fma(scaled, set1(x.d[i]), acc);
    if constexpr (F::kMin && F::kScales == 1) acc = fma(m[0], set1(x.dsum[i]), acc);
    if constexpr (F::kMin && F::kScales == 2) {
      acc = fma(m[0], set1(x.half_dsum[2 * i]), acc);
      acc = fma(m[1], set1(x.half_dsum[2 * i + 1]), acc);
    }
    return acc;
  }

  static constexpr int kHalves = F::kScales;
  static constexpr int kGroups = 8 / kHalves;  // groups of 4 elements per scale
  static constexpr int kMaxCode = (1 << F::kBits) - 1;
  // Without VNNI codes above 127 would saturate the 16-bit pair sums: go through signed weights instead.
  static constexpr bool kSigned = !KVASIR_HAS_VNNI && kMaxCode > 127;

  // Exact integer sums of (u - kZero) * q for one column with signed q.
  KVASIR_INLINE void sums(const Bytes* u, const Int8Tile& x, std::int64_t i, I32* t) {
    const std::int8_t* q = x.q + 32 * i;
    for (int h = 0; h < kHalves; ++h) {
      if constexpr (kSigned) {
        t[h] = zero_i32();
      } else if constexpr (F::kZero != 0) {
        const std::int32_t sum =
            kHalves == 1 ? x.half_sum[2 * i] + x.half_sum[2 * i + 1] : x.half_sum[2 * i + h];
        t[h] = set1_i32(-F::kZero * sum);
      } else {
        t[h] = zero_i32();
      }
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) {
        const Bytes a = broadcast4(q + 4 * (kGroups * h + g));
        const Bytes w = u[kGroups * h + g];
        t[h] = kSigned ? dot_ss(t[h], w, a) : dot_us(t[h], w, a);
      }
    }
  }

  static constexpr int kPrefetch = 4096;  // bytes ahead; past the end of a panel lies the head of the next

  template <int C>
  static void gemv(const MatmulArgs& args) {
    const std::int64_t stride = panel_bytes(args.k);
    const Int8Tile x = int8_tile(*args.x, 0);
    for (std::int64_t p = args.panel_begin; p < args.panel_end; ++p) {
      const std::byte* head = args.panels + p * stride;
      const std::byte* planes = head + head_bytes(args.k);
      F32 acc[C];
      for (int c = 0; c < C; ++c) acc[c] = zero();
      std::int64_t i = 0;
      for (std::int64_t b = 0; b < args.k / F::kBlock; ++b, head += F::kHeadBytes) {
#pragma GCC unroll 8
        for (int s = 0; s < kSubs; ++s, i += C, planes += kPlanes) {
          // The hardware prefetcher stops at every 4 KB page; weights are read once, far apart in time.
          for (int line = 0; line < kPlanes; line += 64) __builtin_prefetch(planes + kPrefetch + line, 0, 2);
          Bytes u[8];
          F32 d[2], m[2];
          load_codes<F::kBits>(planes, u);
          if constexpr (kSigned)
            for (auto& w : u) w = sub8(w, set1_bytes(F::kZero));
          F::load_head(head, s, d, m);
#pragma GCC unroll 4
          for (int c = 0; c < C; ++c) {
            I32 t[2];
            sums(u, x, i + c, t);
            acc[c] = fold(acc[c], t, d, m, x, i + c);
          }
        }
      }
      for (int c = 0; c < C; ++c) store_rows(args, p, c, acc[c]);
    }
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

  // P panels against a whole tile of columns: the codes of a 32-block are unpacked once into registers and stream past the
  // tile's activations; accumulators (P x 64 columns x 64 bytes) live in the L1 cache. With VNNI the unsigned operand is the
  // activation (stored plus 128), so the correction -128 * sum(w) is per row and costs nothing per column.
  template <int P>
  static void gemm(const MatmulArgs& args, std::int64_t panel) {
    const std::int64_t stride = panel_bytes(args.k);
    alignas(64) float acc[kTileColumns][P][16];
    for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
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
  }

  template <int P>
  KVASIR_INLINE void block(const std::byte* head, const std::byte* planes, int s, std::int64_t stride, const Int8Tile& x,
                           std::int64_t i, int columns, float (*acc)[P][16]) {
    Bytes w[P][8];
    F32 d[P][2], m[P][2];
    I32 correction[P][2];
    for (int p = 0; p < P; ++p) {
      load_codes<F::kBits>(planes + p * stride, w[p]);
      F::load_head(head + p * stride, s, d[p], m[p]);
      if constexpr (KVASIR_HAS_VNNI || kSigned) {
        if constexpr (F::kZero != 0)
          for (auto& v : w[p]) v = sub8(v, set1_bytes(F::kZero));
      }
#if KVASIR_HAS_VNNI
      for (int h = 0; h < kHalves; ++h) {
        I32 sum = zero_i32();
        for (int g = 0; g < kGroups; ++g) sum = dot_us(sum, set1_bytes(128), w[p][kGroups * h + g]);
        correction[p][h] = sub(zero_i32(), sum);
      }
#endif
    }
    for (int c = 0; c < columns; ++c) {
#if KVASIR_HAS_VNNI
      I32 t[P][2];
      for (int p = 0; p < P; ++p)
        for (int h = 0; h < kHalves; ++h) t[p][h] = correction[p][h];
      const std::int8_t* q = x.q + 32 * (i + c);
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) {
        const Bytes a = broadcast4(q + 4 * g);
#pragma GCC unroll 2
        for (int p = 0; p < P; ++p) t[p][g / kGroups] = dot_us(t[p][g / kGroups], a, w[p][g]);
      }
#pragma GCC unroll 2
      for (int p = 0; p < P; ++p) store(acc[c][p], fold(load(acc[c][p]), t[p], d[p], m[p], x, i + c));
#else
      for (int p = 0; p < P; ++p) {
        I32 t[2];
        sums(w[p], x, i + c, t);
        store(acc[c][p], fold(load(acc[c][p]), t, d[p], m[p], x, i + c));
      }
#endif
    }
    (void)correction;
  }

  static void matmul(const MatmulArgs& args) {
    switch (args.x->n) {
      case 1: return gemv<1>(args);
      case 2: return gemv<2>(args);
      case 3: return gemv<3>(args);
      case 4: return gemv<4>(args);
      default: break;
    }
    constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 ? 2 : 1;
    std::int64_t p = args.panel_begin;
    for (; p + kPanels <= args.panel_end; p += kPanels) gemm<kPanels>(args, p);
    for (; p < args.panel_end; ++p) gemm<1>(args, p);
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
KVASIR_INLINE void put_half(const std::byte* from, int row, std::byte* head) { __builtin_memcpy(head + 2 * row, from, 2); }
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
