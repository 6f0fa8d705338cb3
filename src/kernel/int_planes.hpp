// How quantised weights lie in panels, and the way there and back, written once for all formats.
//
// clang-format off
// A format is described by a struct F:
//   kBits        bits of a stored code u (1, 2, 3, 4, 5, 6, 8)
//   kZero        the weight is d * (u - kZero) + m ...
//   kLevels      ... or, where the struct has this table of 16 int8, d * kLevels[u] + m (kBits is 4 at most; no kZero)
//   kBlock       elements per block of the file (32, 64, 128 or 256)
//   kScales      scales per 32 elements (1 or 2)
//   kMin         whether m is used
//   kBlockBytes  bytes of a block in the file
//   kHeadBytes   bytes of the scales of 16 rows for one block
//   codes(block, u)              the kBlock codes of a file block, one byte each
//   pack_head(block, row, head)  writes the scales of a file block for one of the 16 rows
//   load_head(head, sub, d, m)   scales (and minima) of 16 rows for the 32 elements `sub` of the block
//   kFactor                      where the struct has it: a panel has a factor for all of its rows
//   weight(d, m, u)              where the struct has it: d * (u - kZero) + m with the sign that the format gives to 0
// clang-format on
// A panel is a sequence of chunks of at least 256 elements (the last one may be shorter): the heads of a chunk's
// blocks, padded to 64 bytes, then the code planes of (32 elements x 16 rows) for every 32 elements. So planes never
// straddle cache lines and a panel is read from its first byte to its last, one stream for the hardware to foresee. The
// factor (f32), if there is one, has a line of its own at the end.
// Byte 4*row + j of "group" g (0..7) is the code of element 4g+j of that row. Planes:
//   4 bits: 4 x 64 bytes, plane i holds group i in the low and group i+4 in the high nibble
//   2 bits: 2 x 64 bytes, plane i holds groups i, i+2, i+4, i+6 from low to high bits
//   3 bits: 3 x 64 bytes, plane i holds group i in bits 0-2 and group i+3 in bits 4-6, bit i of group 6 in bit 3 and
//           bit i of group 7 in bit 7: half the instructions of 2 + 1 bits
//   1 bit:  64 bytes, bit g belongs to group g
//   8 bits: 8 x 64 bytes
// and 5 = 4 + 1 bits, 6 = 4 + 2 (low bits first).
#pragma once

#include <type_traits>

#include "kernel/interleave.hpp"
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

using namespace simd::KVASIR_TARGET;

constexpr int plane_bytes(int bits) { return 64 * bits; }

template <class F>
concept HasLevels = requires {
  F::kLevels;
};

template <class F>
concept HasFactor = requires {
  F::kFactor;
};

// What a code is multiplied as: an entry of the table of levels, or the code without its zero.
template <class F>
constexpr int level_of(int code) {
  if constexpr (HasLevels<F>)
    return F::kLevels[code];
  else
    return code - F::kZero;
}

template <class F>
concept HasWeight = requires {
  F::weight(0.0f, 0.0f, 0);
};

// The weight that a code stands for.
template <class F>
KVASIR_INLINE float weight_of(float d, float m, int code) {
  if constexpr (HasWeight<F>) return F::weight(d, m, code);
  const float x = d * static_cast<float>(level_of<F>(code));
  return F::kMin ? x + m : x;
}

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
  } else if constexpr (kBits == 3) {
    const Bytes low = set1_bytes(7);
    Bytes rest[3];
    KVASIR_UNROLL(3)
    for (int i = 0; i < 3; ++i) {
      const Bytes x = load_bytes(p + 64 * i);
      u[i] = and_(x, low);
      u[i + 3] = and_(shift_right16<4>(x), low);
      rest[i] = and_(x, set1_bytes(0x88));
    }
    const Bytes both = or_(or_(shift_right16<3>(rest[0]), shift_right16<2>(rest[1])), shift_right16<1>(rest[2]));
    u[6] = and_(both, low);  // `both` has nothing in bit 3
    u[7] = shift_right16<4>(sub8(both, u[6]));
  } else if constexpr (kBits == 1) {
    const Bytes one = set1_bytes(1);
    const Bytes x = load_bytes(p);
    u[0] = and_(x, one);
    u[1] = and_(shift_right16<1>(x), one);
    u[2] = and_(shift_right16<2>(x), one);
    u[3] = and_(shift_right16<3>(x), one);
    u[4] = and_(shift_right16<4>(x), one);
    u[5] = and_(shift_right16<5>(x), one);
    u[6] = and_(shift_right16<6>(x), one);
    u[7] = and_(shift_right16<7>(x), one);
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
  if constexpr (kBits == 3) {
    if (g < 6) return at(64 * (g % 3)) >> (g < 3 ? 0 : 4) & 7;
    const int bit = g == 6 ? 3 : 7;
    return (at(0) >> bit & 1) | (at(64) >> bit & 1) << 1 | (at(128) >> bit & 1) << 2;
  }
  if constexpr (kBits == 1) return at(0) >> g & 1;
  return at(64 * (g % 2)) >> (g / 2 * 2) & 3;
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
  } else if constexpr (kBits == 3) {
    for (int i = 0; i < 3; ++i)
      for (int r = 0; r < kPanelRows; ++r) {
        const std::uint32_t bits = (words[6][r] >> i & 0x01010101) << 3 | (words[7][r] >> i & 0x01010101) << 7;
        p[16 * i + r] = words[i][r] | words[i + 3][r] << 4 | bits;
      }
  } else if constexpr (kBits == 1) {
    store_plane<0, 1, 1, 8>(words, p);
  } else {
    for (int i = 0; i < 2; ++i) store_plane<0, 2, 2, 4>(words + i, p + 16 * i);
  }
}

template <class F>
struct IntLayout {
  static constexpr int kSubs = F::kBlock / 32;
  static constexpr int kPlanes = plane_bytes(F::kBits);

  static constexpr int kRun = 256 / F::kBlock;                                           // blocks of 256 elements
  static constexpr int kChunkBlocks = kRun * F::kHeadBytes % 64 == 0 ? kRun : 2 * kRun;  // whole lines of heads

  static constexpr std::int64_t head_bytes(std::int64_t blocks) { return (blocks * F::kHeadBytes + 63) / 64 * 64; }
  static constexpr std::int64_t chunk_bytes(std::int64_t blocks) {
    return head_bytes(blocks) + blocks * kSubs * kPlanes;
  }
  static std::int64_t panel_bytes(std::int64_t k) {
    const std::int64_t blocks = k / F::kBlock;
    const std::int64_t rest = blocks % kChunkBlocks;
    return blocks / kChunkBlocks * chunk_bytes(kChunkBlocks) + (rest > 0 ? chunk_bytes(rest) : 0) + kTail;
  }
  static constexpr int kTail = HasFactor<F> ? 64 : 0;
  static float factor(const std::byte* panel, std::int64_t k) {
    float f = 1.0f;
    if constexpr (kTail > 0) __builtin_memcpy(&f, panel + panel_bytes(k) - kTail, 4);
    return f;
  }
  static void set_factor(std::byte* panel, std::int64_t k, float f) {
    std::byte* const tail = panel + panel_bytes(k) - kTail;
    for (int i = 0; i < kTail; ++i) tail[i] = std::byte{0};
    __builtin_memcpy(tail, &f, 4);
  }
  // Blocks of the chunk that begins with block `first`.
  static int chunk_blocks(std::int64_t blocks, std::int64_t first) {
    return static_cast<int>(blocks - first < kChunkBlocks ? blocks - first : kChunkBlocks);
  }

  // Chunk by chunk, each step a pass of its own over buffers in the L1 cache (a pass that read what the one before has
  // just written in other widths would wait for every store): codes, words of 16 rows side by side, planes.
  static void pack(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
    if constexpr (kTail > 0) set_factor(panel, k, 1.0f);
    constexpr int kElements = kChunkBlocks * F::kBlock;
    alignas(64) std::byte codes[kPanelRows][kElements];
    alignas(64) std::uint32_t words[kElements / 4][kPanelRows];
    alignas(64) static constexpr std::byte kZeros[F::kBlockBytes] = {};
    const std::byte* code_rows[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) code_rows[r] = codes[r];
    const std::int64_t blocks = k / F::kBlock;
    for (std::int64_t first = 0; first < blocks; first += kChunkBlocks) {
      const int n = chunk_blocks(blocks, first);
      for (int r = 0; r < kPanelRows; ++r) {
        for (int b = 0; b < n; ++b) {
          const std::byte* block = rows[r] ? rows[r] + (first + b) * F::kBlockBytes : kZeros;
          F::codes(block, reinterpret_cast<std::uint8_t*>(codes[r]) + b * F::kBlock);
          F::pack_head(block, r, panel + b * F::kHeadBytes);
        }
      }
      interleave_words(code_rows, n * F::kBlock / 4, words[0]);
      panel += head_bytes(n);
      for (int s = 0; s < n * kSubs; ++s, panel += kPlanes) store_planes<F::kBits>(words + 8 * s, panel);
    }
  }

  static void unpack_row(const std::byte* panel, int row, std::int64_t k, float* out) {
    const std::int64_t blocks = k / F::kBlock;
    const float by = factor(panel, k);
    for (std::int64_t first = 0; first < blocks; first += kChunkBlocks) {
      const int n = chunk_blocks(blocks, first);
      const std::byte* planes = panel + head_bytes(n);
      for (int i = 0; i < n * kSubs; ++i, out += 32, planes += kPlanes)
        unpack_part(panel + i / kSubs * F::kHeadBytes, i % kSubs, planes, row, by, out);
      panel = planes;
    }
  }

  // Like unpack_row, 16 rows at a time.
  static void unpack(const std::byte* panel, std::int64_t k, std::int64_t begin, std::int64_t end, float* out) {
    const std::int64_t blocks = k / F::kBlock;
    const F32 by = set1(factor(panel, k));
    for (std::int64_t at = begin / 32; at < end / 32; ++at, out += 32 * kPanelRows) {
      const std::int64_t block = at / kSubs, first = block / kChunkBlocks * kChunkBlocks;
      const std::byte* const chunk = panel + block / kChunkBlocks * chunk_bytes(kChunkBlocks);
      const std::byte* const planes = chunk + head_bytes(chunk_blocks(blocks, first)) + (at - first * kSubs) * kPlanes;
      F32 d[2] = {zero(), zero()};
      F32 m[2] = {zero(), zero()};
      F::load_head(chunk + (block - first) * F::kHeadBytes, static_cast<int>(at % kSubs), d, m);
      Bytes u[8];
      load_codes<F::kBits>(planes, u);
      KVASIR_UNROLL(8)
      for (int g = 0; g < 8; ++g) {
        const int i = F::kScales == 2 ? g / 4 : 0;
        const auto put = [&]<int j>(std::integral_constant<int, j>) __attribute__((always_inline)) {
          F32 x = mul(d[i], to_f32(level_lanes<j>(u[g])));
          if constexpr (F::kMin) x = add(x, m[i]);
          if constexpr (kTail > 0) x = mul(x, by);
          store(out + (4 * g + j) * kPanelRows, x);
        };
        put(std::integral_constant<int, 0>{});
        put(std::integral_constant<int, 1>{});
        put(std::integral_constant<int, 2>{});
        put(std::integral_constant<int, 3>{});
      }
    }
  }

  // What byte j of every lane's codes is multiplied as.
  template <int j>
  KVASIR_INLINE I32 level_lanes(Bytes codes) {
    if constexpr (HasLevels<F>)
      return signed_byte<j>(lookup16(repeat16(F::kLevels), codes));
    else
      return sub(byte<j>(codes), set1_i32(F::kZero));
  }

  // 32 elements of a row, times `by`.
  static void unpack_part(const std::byte* head, int sub, const std::byte* planes, int row, float by, float* out) {
    F32 d[2] = {zero(), zero()};
    F32 m[2] = {zero(), zero()};
    F::load_head(head, sub, d, m);
    float scale[2][16];
    float minimum[2][16];
    for (int i = 0; i < F::kScales; ++i) {
      store(scale[i], d[i]);
      store(minimum[i], m[i]);
    }
    for (int e = 0; e < 32; ++e) {
      const int i = F::kScales == 2 ? e / 16 : 0;
      out[e] = weight_of<F>(scale[i][row], minimum[i][row], code_at<F::kBits>(planes, row, e));
      if constexpr (kTail > 0) out[e] *= by;
    }
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
          out[e] = weight_of<F>(scale[i][0], minimum[i][0], codes[32 * s + e]);
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
