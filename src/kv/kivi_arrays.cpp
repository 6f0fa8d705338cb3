#include "kv/kivi_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "simd/half.hpp"

namespace kvasir::kv {
namespace {

constexpr std::int64_t kMostNumbers = std::numeric_limits<std::int64_t>::max() / 64;
constexpr std::int64_t kTile = 1024;  // lanes whose sums are made together
constexpr int kTileRows = 8;

float load_scale(const std::byte* from, std::size_t i, bool wide) {
  if (wide) {
    float f;
    std::memcpy(&f, from + 4 * i, 4);
    return f;
  }
  std::uint16_t h;
  std::memcpy(&h, from + 2 * i, 2);
  return simd::f16_to_f32(h);
}

// Returns what load_scale will.
float store_scale(float f, std::byte* to, std::size_t i, bool wide) {
  if (wide) {
    std::memcpy(to + 4 * i, &f, 4);
    return f;
  }
  const std::uint16_t h = simd::f32_to_f16(f);
  std::memcpy(to + 2 * i, &h, 2);
  return simd::f16_to_f32(h);
}

// Where number (k, l) of a head is in x.
struct KiviStrides {
  std::int64_t k, l;
  explicit KiviStrides(const KiviArrays& a) : k(a.values ? a.head_dim : 1), l(a.values ? 1 : a.head_dim) {}
};

// Numbers of lanes [from, to) of row k.
void read_row(const KiviArrays& a, std::int64_t k, std::int64_t from, std::int64_t to, float* out) {
  const std::int64_t each = 8 / a.bits, row = k * a.lanes();
  const int top = (1 << a.bits) - 1;
  for (std::int64_t l = from; l < to;) {
    const std::int64_t j = l / a.group, end = std::min(to, (j + 1) * a.group);
    const auto at = static_cast<std::size_t>(k * a.groups() + j);
    const float s = load_scale(a.scales, at, a.wide), m = load_scale(a.minima, at, a.wide);
    for (; l < end; ++l) {
      const auto byte = static_cast<int>(a.codes[(row + l) / each]);
      *out++ = static_cast<float>(byte >> (l % each * a.bits) & top) * s + m;
    }
  }
}

}  // namespace

KiviArrays KiviArrays::part(std::int64_t first, std::int64_t n) const {
  KiviArrays p = *this;
  const auto f = static_cast<std::size_t>(first);
  p.heads = n;
  p.codes += f * code_bytes();
  p.scales += f * scale_bytes();
  p.minima += f * scale_bytes();
  return p;
}

void require_arrays(const KiviArrays& a) {
  const auto expect = [](bool fine, const char* name, std::int64_t is, const std::string& expected) {
    if (!fine) throw Error(Code::kBadInput, fmt::format("{}, expected {}", is, expected), name);
  };
  expect(a.bits == 2 || a.bits == 4 || a.bits == 8, "bits", a.bits, "2, 4 or 8");
  expect(a.heads >= 0, "heads", a.heads, "0 or more");
  expect(a.tokens >= 0, "tokens", a.tokens, "0 or more");
  expect(a.head_dim > 0, "head_dim", a.head_dim, "more than 0");
  const std::string divides = fmt::format("a multiple of 4 that divides {}", a.lanes());
  expect(a.group >= 4 && a.group % 4 == 0 && a.lanes() % a.group == 0, "group_size", a.group, divides);
  const bool small =
      a.tokens <= kMostNumbers / a.head_dim && (a.tokens == 0 || a.heads <= kMostNumbers / a.head_dim / a.tokens);
  expect(small, "heads", a.heads, "fewer numbers in all");
  const bool none = a.heads == 0 || a.tokens == 0;
  for (const auto& [pointer, name] : {std::pair{a.codes, "codes"}, {a.scales, "scales"}, {a.minima, "minima"}})
    if (!pointer && !none) throw Error(Code::kBadInput, "is NULL", name);
}

void require_finite(const float* x, std::size_t count, const char* name) {
  if (!x) throw Error(Code::kBadInput, "is NULL", name);
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isfinite(x[i])) throw Error(Code::kBadInput, "holds a number that is not finite", name);
}

void require_scales(const KiviArrays& a, const char* why) {
  const std::size_t count = static_cast<std::size_t>(a.heads) * static_cast<std::size_t>(a.depth() * a.groups());
  for (const auto& [from, name] : {std::pair{a.scales, "scales"}, {a.minima, "minima"}})
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isfinite(load_scale(from, i, a.wide))) throw Error(Code::kBadInput, why, name);
}

void KiviMaker::quantize(const float* x, const KiviArrays& to) {
  require_arrays(to);
  if (to.heads == 0 || to.tokens == 0) return;
  require_finite(x, static_cast<std::size_t>(to.heads) * to.numbers(), "x");
  do_quantize(x, to);
  require_scales(to, to.wide ? "x has groups whose numbers reach beyond float32"
                             : "x has groups whose numbers reach beyond float16, 65504");
}

void KiviMaker::dequantize(const KiviArrays& from, float* x) {
  require_arrays(from);
  if (from.heads == 0 || from.tokens == 0) return;
  if (!x) throw Error(Code::kBadInput, "is NULL", "x");
  require_scales(from, "hold a number that is not finite");
  do_dequantize(from, x);
}

void KiviMaker::multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out) {
  require_arrays(by);
  if (rows < 0) throw Error(Code::kBadInput, fmt::format("{}, expected 0 or more", rows), "rows");
  if (by.heads == 0 || rows == 0) return;
  if (rows > kMostNumbers / by.heads / std::max(by.head_dim, by.tokens))
    throw Error(Code::kBadInput, fmt::format("{}, expected fewer", rows), "rows");
  if (by.tokens == 0) {  // keys: nothing to write; values: sums of nothing
    if (!out) throw Error(Code::kBadInput, "is NULL", "out");
    if (by.values) std::fill_n(out, by.heads * rows * by.head_dim, 0.0f);
    return;
  }
  if (!out) throw Error(Code::kBadInput, "is NULL", "out");
  const auto count = static_cast<std::size_t>(by.heads * rows * by.depth());
  require_finite(a, count, by.values ? "p" : "q");
  require_scales(by, "hold a number that is not finite");
  do_multiply(a, rows, by, out);
}

void HostKivi::do_quantize(const float* x, const KiviArrays& to) {
  const KiviStrides stride(to);
  const float top = static_cast<float>((1 << to.bits) - 1);
  const std::int64_t each = 8 / to.bits;
  for (std::int64_t h = 0; h < to.heads; ++h) {
    const KiviArrays a = to.part(h, 1);
    const float* const head = x + h * static_cast<std::int64_t>(a.numbers());
    for (std::int64_t k = 0; k < a.depth(); ++k)
      for (std::int64_t j = 0; j < a.groups(); ++j) {
        const float* const g = head + k * stride.k + j * a.group * stride.l;
        float low = g[0], high = g[0];
        for (std::int64_t l = 1; l < a.group; ++l) {
          low = std::min(low, g[l * stride.l]);
          high = std::max(high, g[l * stride.l]);
        }
        const auto at = static_cast<std::size_t>(k * a.groups() + j);
        const float s = store_scale((high - low) / top, a.scales, at, a.wide);
        const float m = store_scale(low + 0.0f, a.minima, at, a.wide);
        std::byte* codes = a.codes + (k * a.lanes() + j * a.group) / each;
        for (std::int64_t l = 0; l < a.group; l += each) {
          int byte = 0;
          for (std::int64_t i = 0; i < each && s > 0.0f; ++i) {
            const float v = std::min(top, std::max(0.0f, (g[(l + i) * stride.l] - m) / s));
            byte |= static_cast<int>((v + 12582912.0f) - 12582912.0f) << (i * to.bits);
          }
          *codes++ = static_cast<std::byte>(byte);
        }
      }
  }
}

void HostKivi::do_dequantize(const KiviArrays& from, float* x) {
  const KiviStrides stride(from);
  std::vector<float> row(static_cast<std::size_t>(from.lanes()));
  for (std::int64_t h = 0; h < from.heads; ++h) {
    const KiviArrays a = from.part(h, 1);
    float* const head = x + h * static_cast<std::int64_t>(a.numbers());
    for (std::int64_t k = 0; k < a.depth(); ++k) {
      read_row(a, k, 0, a.lanes(), row.data());
      for (std::int64_t l = 0; l < a.lanes(); ++l) head[k * stride.k + l * stride.l] = row[static_cast<std::size_t>(l)];
    }
  }
}

void HostKivi::do_multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out) {
  const std::int64_t depth = by.depth(), lanes = by.lanes();
  std::vector<float> number(kTile), sums(kTile * kTileRows);
  for (std::int64_t h = 0; h < by.heads; ++h) {
    const KiviArrays one = by.part(h, 1);
    for (std::int64_t first = 0; first < rows; first += kTileRows) {
      const std::int64_t n = std::min<std::int64_t>(kTileRows, rows - first);
      const float* const x = a + (h * rows + first) * depth;
      float* const to = out + (h * rows + first) * lanes;
      for (std::int64_t from = 0; from < lanes; from += kTile) {
        const std::int64_t width = std::min(kTile, lanes - from);
        for (std::int64_t block = 0; block < depth; block += kMultiplyDepth) {
          std::fill(sums.begin(), sums.end(), 0.0f);
          for (std::int64_t k = block; k < std::min(depth, block + kMultiplyDepth); ++k) {
            read_row(one, k, from, from + width, number.data());
            for (std::int64_t r = 0; r < n; ++r) {
              const float factor = x[r * depth + k];
              float* const s = sums.data() + r * kTile;
              for (std::int64_t l = 0; l < width; ++l) s[l] = s[l] + factor * number[static_cast<std::size_t>(l)];
            }
          }
          for (std::int64_t r = 0; r < n; ++r)
            for (std::int64_t l = 0; l < width; ++l) {
              float& t = to[r * lanes + from + l];
              const float s = sums[static_cast<std::size_t>(r * kTile + l)];
              t = block == 0 ? s : t + s;
            }
        }
      }
    }
  }
}

}  // namespace kvasir::kv
