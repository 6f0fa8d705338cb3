#include "vision/resize.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.hpp"

namespace kvasir::vision {
namespace {

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys' cubic with a = -1/2.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

struct Shape {
  double reach;
  double (*weight)(double);
};
Shape shape_of(Filter filter) {
  if (filter == Filter::kLanczos) return {3, lanczos};
  return filter == Filter::kBicubic ? Shape{2, cubic} : Shape{1, triangle};
}

// What each place of a resized axis is made of: `count` places of the old one from `first` on.
struct Taps {
  struct Range {
    int first, count;
  };
  std::vector<Range> ranges;
  std::vector<std::int32_t> weights;  // (places, most)
  int most = 0;
  int bits = 0;  // behind the point
};

Taps taps_of(int from, int to, Filter filter, Rounding rounding) {
  const double scale = static_cast<double>(from) / to, stretch = std::max(scale, 1.0);
  const Shape shape = shape_of(filter);
  const double reach = shape.reach * stretch;
  Taps t;
  t.most = static_cast<int>(std::ceil(reach)) * 2 + 1;
  std::vector<double> exact(static_cast<std::size_t>(to) * static_cast<std::size_t>(t.most));
  double largest = 0;
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - reach + 0.5), 0);
    const int count = std::min(static_cast<int>(center + reach + 0.5), from) - first;
    double* const w = exact.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(t.most);
    double sum = 0;
    for (int k = 0; k < count; ++k) {
      const double x = (k + first - center + 0.5) * (1.0 / stretch);
      sum += w[k] = shape.weight(x);
    }
    for (int k = 0; k < count && sum != 0; ++k) largest = std::max(largest, w[k] /= sum);
    t.ranges.push_back({first, count});
  }
  t.bits = 22;
  if (rounding == Rounding::kTorchvision)
    for (t.bits = 0; t.bits < 22 && 0.5 + largest * (1 << (t.bits + 1)) < 1 << 15;) ++t.bits;
  for (const double w : exact) t.weights.push_back(static_cast<std::int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << t.bits)));
  return t;
}

std::uint8_t to_byte(std::int32_t sum, int bits) { return static_cast<std::uint8_t>(std::clamp(sum >> bits, 0, 255)); }

// (height, width, 3) to (height, to, 3).
std::vector<std::uint8_t> resize_rows(const std::vector<std::uint8_t>& from, Size size, int to, const Taps& t) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(size.height) * static_cast<std::size_t>(to) * 3);
  std::uint8_t* at = out.data();
  for (int y = 0; y < size.height; ++y) {
    const std::uint8_t* const row =
        from.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width) * 3;
    for (int x = 0; x < to; ++x, at += 3) {
      const Taps::Range range = t.ranges[static_cast<std::size_t>(x)];
      const std::int32_t* const w = t.weights.data() + static_cast<std::size_t>(x) * static_cast<std::size_t>(t.most);
      const std::uint8_t* const p = row + range.first * 3;
      std::int32_t sum[3];
      std::fill_n(sum, 3, std::int32_t{1} << (t.bits - 1));
      for (int k = 0; k < range.count; ++k)
        for (int c = 0; c < 3; ++c) sum[c] += p[3 * k + c] * w[k];
      for (int c = 0; c < 3; ++c) at[c] = to_byte(sum[c], t.bits);
    }
  }
  return out;
}

// (old height, width, 3) to (to, width, 3).
std::vector<std::uint8_t> resize_columns(const std::vector<std::uint8_t>& from, int width, int to, const Taps& t) {
  const std::size_t pitch = static_cast<std::size_t>(width) * 3;
  std::vector<std::uint8_t> out(pitch * static_cast<std::size_t>(to));
  std::vector<std::int32_t> sums(pitch);
  for (int y = 0; y < to; ++y) {
    const Taps::Range range = t.ranges[static_cast<std::size_t>(y)];
    std::fill(sums.begin(), sums.end(), std::int32_t{1} << (t.bits - 1));
    for (int k = 0; k < range.count; ++k) {
      const std::uint8_t* const row = from.data() + static_cast<std::size_t>(range.first + k) * pitch;
      const std::int32_t w =
          t.weights[static_cast<std::size_t>(y) * static_cast<std::size_t>(t.most) + static_cast<std::size_t>(k)];
      for (std::size_t i = 0; i < pitch; ++i) sums[i] += row[i] * w;
    }
    for (std::size_t i = 0; i < pitch; ++i) out[static_cast<std::size_t>(y) * pitch + i] = to_byte(sums[i], t.bits);
  }
  return out;
}

}  // namespace

Picture resize(const Picture& from, Size to, Filter filter, Rounding rounding) {
  KVASIR_CHECK(to.width > 0 && to.height > 0 && from.size.width > 0 && from.size.height > 0);
  Picture out = from;
  if (to.width != from.size.width)
    out.rgb = resize_rows(out.rgb, from.size, to.width, taps_of(from.size.width, to.width, filter, rounding));
  if (to.height != from.size.height)
    out.rgb = resize_columns(out.rgb, to.width, to.height, taps_of(from.size.height, to.height, filter, rounding));
  out.size = to;
  return out;
}

Picture cut_square(const Picture& from, int row, int column, int side) {
  KVASIR_CHECK((column + 1) * side <= from.size.width && (row + 1) * side <= from.size.height);
  Picture square{{side, side}, {}};
  square.rgb.reserve(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3);
  for (int y = 0; y < side; ++y) {
    const auto at = from.rgb.begin() + ((std::int64_t{row} * side + y) * from.size.width + column * side) * 3;
    square.rgb.insert(square.rgb.end(), at, at + side * 3);
  }
  return square;
}

}  // namespace kvasir::vision
