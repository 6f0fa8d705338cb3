// Rounding to the grids of i-quants. Every sub-block tries a few scales and takes the vectors nearest to its elements;
// the best scale is the one that least squares gives for the vectors found. Importance of columns is not asked for;
// weights/quants_test.cpp has the loss.
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/grids.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// Vectors side by side: element i of vector n, and half the square of its length.
template <int kEntries, int kDigits>
struct Points {
  float at[kDigits][kEntries];
  float half[kEntries];

  template <class G, class Level>
  Points(const G& grid, Level level) {
    for (int n = 0; n < kEntries; ++n) {
      half[n] = 0;
      for (int i = 0; i < kDigits; ++i) {
        at[i][n] = level(grid.digit(n, i));
        half[n] += 0.5f * at[i][n] * at[i][n];
      }
    }
  }

  // The vector nearest to x, of two alike the first; |x - p|^2 is least where x p - |p|^2 / 2 is largest.
  int nearest(const float* x) const {
    using namespace simd::KVASIR_TARGET;
    static_assert(kEntries % 16 == 0);
    float score[kEntries];
    F32 best = set1(-__builtin_inff());
    for (int n = 0; n < kEntries; n += 16) {
      F32 s = sub(zero(), load(half + n));
      KVASIR_UNROLL(8)
      for (int i = 0; i < kDigits; ++i) s = fma(load(at[i] + n), set1(x[i]), s);
      store(score + n, s);
      best = max(best, s);
    }
    const float most = reduce_max(best);
    for (int n = 0; n < kEntries; ++n)
      if (score[n] == most) return n;
    return 0;  // x is no number
  }
};

// A sub-block of a type with signs of their own: the numbers of its vectors, a byte of signs to every 8 elements. Book
// has the grid (kGrid), its points and the size that a digit stands for (level). kEven: of 8 signs an even number is
// negative; where it is not, the element that matters least changes its sign.
template <class Book, int kElements, bool kEven>
struct SignedPart {
  static constexpr int kSize = kElements, kDigits = Book::kGrid.kLength;
  std::uint16_t index[kElements / kDigits];
  std::uint8_t sign[kElements / 8];
  float level[kElements];

  void round(const float* x, float inverse) {
    for (int g = 0; g < kElements / 8; ++g, x += 8) {
      float size[8];
      int least = 0;
      sign[g] = 0;
      for (int i = 0; i < 8; ++i) {
        size[i] = __builtin_fabsf(x[i]) * inverse;
        sign[g] |= static_cast<std::uint8_t>((x[i] < 0.0f ? 1 : 0) << i);
        if (size[i] < size[least]) least = i;
      }
      if (kEven && __builtin_popcount(sign[g]) % 2 == 1) {
        sign[g] ^= static_cast<std::uint8_t>(1 << least);
        size[least] = -size[least];
      }
      for (int v = 0; v < 8 / kDigits; ++v) {
        const int n = Book::points().nearest(size + kDigits * v);
        index[8 / kDigits * g + v] = static_cast<std::uint16_t>(n);
        for (int i = 0; i < kDigits; ++i) {
          const int e = kDigits * v + i;
          const float l = Book::level(Book::kGrid.digit(n, i));
          level[8 * g + e] = sign[g] >> e & 1 ? -l : l;
        }
      }
    }
  }
};

// The scale of kSize elements: of those that take the largest to one of Part::kTargets the one that loses least.
template <class Part>
float best_scale(const float* x, Part& part) {
  const float most = __builtin_fabsf(extreme(x, Part::kSize));
  float scale = 0.0f, gain = 0.0f;
  if (!(most > 0.0f)) return scale;
  for (const float target : Part::kTargets) {
    part.round(x, target / most);
    float xl = 0.0f, ll = 0.0f;  // of x / most: no squares of what is very small or large
    for (int i = 0; i < Part::kSize; ++i) {
      xl += x[i] / most * part.level[i];
      ll += part.level[i] * part.level[i];
    }
    if (xl <= 0.0f || xl * xl <= gain * ll) continue;
    gain = xl * xl / ll;
    scale = xl / ll * most;
  }
  return scale;
}

// 256 elements with scales unit d (2 s + 1), s in [0, kTop]: writes d, s and the parts.
template <int kTop, class Part, int kParts>
void round_to_grid(const float* x, float unit, std::byte* d_out, std::uint8_t (&s)[kParts], Part (&parts)[kParts]) {
  static_assert(kParts * Part::kSize == 256);
  float scale[kParts];
  for (int j = 0; j < kParts; ++j) scale[j] = best_scale(x + Part::kSize * j, parts[j]);
  kernel::KVASIR_TARGET::put_half_value(largest(scale, kParts) / (static_cast<float>(2 * kTop + 1) * unit), d_out);
  const float d = kernel::KVASIR_TARGET::half_at(d_out) * unit;
  for (int j = 0; j < kParts; ++j) {
    const float halves = d > 0.0f ? __builtin_nearbyintf((scale[j] / d - 1.0f) * 0.5f) : 0.0f;
    s[j] = static_cast<std::uint8_t>(halves < 0.0f ? 0.0f : halves > kTop ? static_cast<float>(kTop) : halves);
    parts[j].round(x + Part::kSize * j, d > 0.0f ? 1.0f / (d * static_cast<float>(2 * s[j] + 1)) : 0.0f);
  }
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
