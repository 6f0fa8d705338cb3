// PolarQuant (Han et al. 2025, arXiv 2502.02617): a random rotation, then every 16 channels as one radius and 15
// angles.
//
//   level 0   16 coordinates
//   level 1    8 angles of pairs, 8 lengths of pairs
//   level 2    4 angles of pairs of those lengths, 4 lengths      level 3: 2 and 2
//   level 4    1 angle, 1 length: the radius, stored as f16
//
// The level decides the bits of an angle (tables.hpp). The radius keeps the length, so estimates are neither least
// squares nor unbiased:
//   <x^, x> = c |x|^2,   |x^ - x|^2 / |x|^2 = 2 (1 - c),   c = product over levels of E cos(angle - angle^)
//
// Encoding compares a pair with the directions between cells. Decoding multiplies radii with table entries from level 4
// down. Products are float32. Keys and values have the same layout; lanes are tokens.
//
// Page:
//   f16 r[d / 16][128]    a quarter of the length of each 16 channels; 0 for sinks
//   codes                 for each 16 channels: levels 1 to 4 (8, 4, 2 and 1 angles)
//                         a level of 3 bits is a plane of the low 2 bits, then a plane of the high bit
//   plane                 n angles of w bits (1, 2 or 4): 16 n w bytes
//                         code k = 128 angle + token: byte k % (16 n w), from bit w (k / (16 n w)) up
// docs/formats/polar.md says it byte by byte.
#pragma once

#include "kv/families/polar/tables.hpp"
#include "kv/families/sketch/sketch.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr int kPolarChannels = 16;

template <int B1, int B2, int B3, int B4>
struct Polar {
  static constexpr int kLevels = 4;
  template <int level>
  static constexpr int kBits = level == 1   ? B1
                               : level == 2 ? B2
                               : level == 3 ? B3
                                            : B4;
  template <int level>
  static constexpr int kAngles = kPolarChannels >> level;
  template <int level>
  static constexpr PolarLevel<level, kBits<level>> kTable{};
  static constexpr int kBitsInAll = 8 * B1 + 4 * B2 + 2 * B3 + B4;
  static constexpr std::ptrdiff_t kBlock = kPageTokens * kBitsInAll / 8;  // codes of 16 channels

  // Bytes of codes before a level's.
  template <int level>
  static constexpr int kStart = 16 * ((level > 1 ? 8 * B1 : 0) + (level > 2 ? 4 * B2 : 0) + (level > 3 ? 2 * B3 : 0));

  static std::size_t bytes(int d, const CodecParams&) {
    return static_cast<std::size_t>(d / kPolarChannels) * (2 * kPageTokens + kBlock);
  }
  static std::size_t state_bytes(int d) { return kernel::rotation_bytes(d); }
  static void init_state(void* state, int d, Side side, int layer, int kv_head) {
    kernel::make_rotation(state, d, strip_seed(side, layer, kv_head, 0));
  }
  static void to_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    kRotate.forward(head.state, head.d, rows, x, stride);
  }
  static void from_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    kRotate.inverse(head.state, head.d, rows, x, stride);
  }

  // Tokens [16 chunk, 16 chunk + 16) of one angle in a plane of `angles` angles of w bits.
  template <int angles, int w>
  struct Place {
    int byte, shift;
    Place(int angle, int chunk)
        : byte((8 * angle + chunk) % (angles * w) * 16), shift((8 * angle + chunk) / (angles * w) * w) {}
  };
  template <int angles, int w>
  KVASIR_INLINE void put_plane(std::byte* plane, int angle, int chunk, I32 code) {
    const Place<angles, w> at(angle, chunk);
    std::uint64_t bytes[2];
    std::uint64_t old[2];
    store_low_bytes(bytes, mul(and_(code, set1_i32((1 << w) - 1)), set1_i32(1 << at.shift)));
    __builtin_memcpy(old, plane + at.byte, 16);
    old[0] |= bytes[0];
    old[1] |= bytes[1];
    __builtin_memcpy(plane + at.byte, old, 16);
  }
  template <int angles, int w>
  KVASIR_INLINE I32 get_plane(const std::byte* plane, int angle, int chunk) {
    const Place<angles, w> at(angle, chunk);
    const I32 x = load_u8(reinterpret_cast<const std::uint8_t*>(plane) + at.byte);
    return and_(shift_right(x, at.shift), set1_i32((1 << w) - 1));
  }

  template <int level>
  KVASIR_INLINE void put(std::byte* block, int angle, int chunk, I32 code) {
    constexpr int n = kAngles<level>;
    std::byte* plane = block + kStart<level>;
    if constexpr (kBits<level> == 3) {
      put_plane<n, 2>(plane, angle, chunk, code);
      put_plane<n, 1>(plane + 32 * n, angle, chunk, shift_right(code, 2));
    } else {
      put_plane<n, kBits<level>>(plane, angle, chunk, code);
    }
  }
  template <int level>
  KVASIR_INLINE I32 get(const std::byte* block, int angle, int chunk) {
    constexpr int n = kAngles<level>;
    const std::byte* plane = block + kStart<level>;
    if constexpr (kBits<level> == 3) {
      const I32 high = get_plane<n, 1>(plane + 32 * n, angle, chunk);
      return add(get_plane<n, 2>(plane, angle, chunk), mul(high, set1_i32(4)));
    } else {
      return get_plane<n, kBits<level>>(plane, angle, chunk);
    }
  }

  // The cell of the direction (a, b).
  template <int level>
  KVASIR_INLINE I32 cell(F32 a, F32 b) {
    constexpr const auto& table = kTable<level>;
    const F32 x = abs(a);  // levels above the first have lengths here
    const F32 y = abs(b);
    F32 code = zero();
    KVASIR_UNROLL(8)
    for (int i = 0; i < table.kBoundaries; ++i)
      code = add(code, at_least(mul(y, set1(table.bound_cos[i])), mul(x, set1(table.bound_sin[i]))));
    if constexpr (level == 1) {  // mirrored into the other quadrants
      const auto mirror = [&](F32 coordinate, int cells) __attribute__((always_inline)) {
        const F32 other = sub(set1(static_cast<float>(cells - 1)), add(code, code));
        code = fma(sub(set1(1.0f), at_least(coordinate, zero())), other, code);
      };
      mirror(a, table.kCount / 2);
      mirror(b, table.kCount);
    }
    return to_i32(code);
  }

  // Level by level, `r` (2 * kAngles) to lengths (kAngles), in place.
  template <int level>
  KVASIR_INLINE void encode_level(F32* r, std::byte* block, int chunk) {
    for (int i = 0; i < kAngles<level>; ++i) {
      const F32 a = r[2 * i];
      const F32 b = r[2 * i + 1];
      put<level>(block, i, chunk, cell<level>(a, b));
      r[i] = sqrt(fma(b, b, mul(a, a)));
    }
  }

  static std::uint16_t* radii(std::byte* page, int block) {
    return reinterpret_cast<std::uint16_t*>(page) + static_cast<std::ptrdiff_t>(block) * kPageTokens;
  }
  static const std::uint16_t* radii(const std::byte* page, int block) {
    return reinterpret_cast<const std::uint16_t*>(page) + static_cast<std::ptrdiff_t>(block) * kPageTokens;
  }
  KVASIR_INLINE std::ptrdiff_t block_at(int d, int block) {
    return 2 * kPageTokens * (d / kPolarChannels) + block * kBlock;
  }

  template <Side side>
  static void seal(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const int d = head.d;
    __builtin_memset(page, 0, bytes(d, {}));
    for (int t = 0; t < kPageTokens; t += kLanes) {
      load_strip<side>(raw, d, t, skip, scratch + strip_floats(d), scratch);
      kRotate.forward_columns(head.state, d, kLanes, scratch, kLanes);
      for (int v = 0; v < d / kPolarChannels; ++v) {
        F32 r[kPolarChannels];
        for (int i = 0; i < kPolarChannels; ++i) r[i] = load(scratch + (v * kPolarChannels + i) * kLanes);
        std::byte* block = page + block_at(d, v);
        encode_level<1>(r, block, t / kLanes);
        encode_level<2>(r, block, t / kLanes);
        encode_level<3>(r, block, t / kLanes);
        encode_level<4>(r, block, t / kLanes);
        store_rounded(radii(page, v) + t, mul(r[0], set1(0.25f)));
      }
    }
  }

  // From the root down: out[channel * pitch] for the 16 tokens of a chunk.
  template <int level>
  KVASIR_INLINE void descend(const std::byte* block, int chunk, int node, F32 r, float* out, std::ptrdiff_t pitch) {
    if constexpr (level == 0) {
      store(out + node * pitch, r);
    } else {
      constexpr int n = kTable<level>.kCount;
      const I32 code = get<level>(block, node, chunk);
      descend<level - 1>(block, chunk, 2 * node, mul(r, lookup<n>(load(kTable<level>.cos), code)), out, pitch);
      descend<level - 1>(block, chunk, 2 * node + 1, mul(r, lookup<n>(load(kTable<level>.sin), code)), out, pitch);
    }
  }
  // Channels [16 v, 16 v + 16) of the tokens [t, t + 16).
  static void decode(const std::byte* page, int d, int v, int t, float* out, std::ptrdiff_t pitch) {
    const F32 r = mul(load_f16(radii(page, v) + t), set1(4.0f));
    descend<kLevels>(page + block_at(d, v), t / kLanes, 0, r, out, pitch);
  }

  static void unseal_k(const Head& head, const PageRef& page, float* tile) {
    const int d = head.d;
    for (int t = 0; t < page.end || t % kPanel != 0; t += kLanes)
      for (int v = 0; v < d / kPolarChannels; ++v)
        decode(page.block, d, v, t,
               tile + (static_cast<std::ptrdiff_t>(t / kPanel) * d + v * kPolarChannels) * kPanel + t % kPanel, kPanel);
  }

  static void unseal_v(const Head& head, const PageRef& page, float* tile) {
    const int d = head.d;
    alignas(64) float square[kPolarChannels * kLanes];
    alignas(64) std::uint32_t rows[kPolarChannels * kLanes];
    const std::byte* columns[kLanes];
    for (int i = 0; i < kLanes; ++i) columns[i] = reinterpret_cast<const std::byte*>(square + i * kLanes);
    for (int v = 0; v < d / kPolarChannels; ++v)
      for (int t = 0; t < page.end; t += kLanes) {
        decode(page.block, d, v, t, square, kLanes);
        kernel::KVASIR_TARGET::interleave_words(columns, kLanes, rows);
        const int c = v * kPolarChannels;
        float* to = tile + (static_cast<std::ptrdiff_t>(c / kPanel) * kPageTokens + t) * kPanel + c % kPanel;
        for (int i = 0; i < kLanes; ++i) __builtin_memcpy(to + i * kPanel, rows + i * kLanes, 64);
      }
  }

  template <int G>
  static void strip_dots(const float* strip, int d, const float* q, float* scores, int stride) {
    F32 acc[G];
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) acc[g] = zero();
    KVASIR_UNROLL(1)
    for (int c = 0; c < d; ++c) {
      const F32 x = load(strip + c * kLanes);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) acc[g] = fma(set1(q[g * d + c]), x, acc[g]);
    }
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) store(scores + g * stride, acc[g]);
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    const int d = head.d;
    alignas(64) float strip[kernel::kMaxRotated * kLanes];
    for (int i = 0; i < count; ++i)
      for (int t = pages[i].begin / kLanes * kLanes; t < pages[i].end; t += kLanes) {
        for (int v = 0; v < d / kPolarChannels; ++v)
          decode(pages[i].block, d, v, t, strip + v * kPolarChannels * kLanes, kLanes);
        for (int r = 0, n = 0; r < g; r += n) {
          n = rows_from(r, g);
          float* to = scores + static_cast<std::ptrdiff_t>(r) * stride + i * kPageTokens + t;
          with_rows(n, [&]<int G>() { strip_dots<G>(strip, d, q + static_cast<std::ptrdiff_t>(r) * d, to, stride); });
        }
      }
  }

  // Sums over tokens run down the lanes and then across them.
  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
    alignas(64) float tile[kPolarChannels * kPageTokens];
    for (int i = 0; i < count; ++i) {
      const int begin = pages[i].begin / kLanes * kLanes;
      const int end = pages[i].end;
      for (int v = 0; v < head.d / kPolarChannels; ++v) {
        for (int t = begin; t < end; t += kLanes) decode(pages[i].block, head.d, v, t, tile + t, kPageTokens);
        for (int r = 0; r < g; ++r) {
          const float* w = weights + static_cast<std::ptrdiff_t>(r) * stride + i * kPageTokens;
          float* to = out + (static_cast<std::ptrdiff_t>(i) * g + r) * pitch + v * kPolarChannels;
          KVASIR_UNROLL(1)
          for (int c = 0; c < kPolarChannels; c += 4) {
            F32 acc[4];
            KVASIR_UNROLL(4)
            for (int j = 0; j < 4; ++j) acc[j] = zero();
            KVASIR_UNROLL(1)
            for (int t = begin; t < end; t += kLanes) {
              const F32 y = load(w + t);
              KVASIR_UNROLL(4)
              for (int j = 0; j < 4; ++j) acc[j] = fma(y, load(tile + (c + j) * kPageTokens + t), acc[j]);
            }
            KVASIR_UNROLL(4)
            for (int j = 0; j < 4; ++j) to[c + j] = reduce_add(acc[j]);
          }
        }
      }
    }
  }

  static constexpr Codec codec(const char* summary) {
    return {.summary = summary,
            .raw_type = RawType::kF16,
            .lossless = false,
            .refuse = refuse_rotated,
            .state_bytes = state_bytes,
            .init_state = init_state,
            .k = {bytes, seal<Side::kKeys>, unseal_k, to_basis, from_basis},
            .v = {bytes, seal<Side::kValues>, unseal_v, to_basis, from_basis},
            .dots = dots,
            .accumulate = accumulate};
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
