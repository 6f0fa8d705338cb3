#include "device/compared_kivi.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/splitmix.hpp"

namespace kvasir::device {
namespace {

// Arrays with room of their own.
struct OwnArrays {
  kv::KiviArrays arrays;
  std::vector<std::byte> codes, scales, minima;

  explicit OwnArrays(const kv::KiviArrays& sizes) : arrays(sizes) {
    const auto heads = static_cast<std::size_t>(sizes.heads);
    codes.resize(heads * sizes.code_bytes());
    scales.resize(heads * sizes.scale_bytes());
    minima.resize(heads * sizes.scale_bytes());
    arrays.codes = codes.data(), arrays.scales = scales.data(), arrays.minima = minima.data();
  }
};

float number_of(float f) { return f; }
float number_of(std::byte b) { return static_cast<float>(b); }

template <class T>
void require_same(const std::vector<T>& expected, const std::vector<T>& got, const std::string& what,
                  const std::string& device) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::memcmp(&expected[i], &got[i], sizeof(T)) != 0)
      throw Error(Code::kUnsupported,
                  fmt::format("its bits are not the processor's: {}, number {}: expected {}, got {}", what, i,
                              number_of(expected[i]), number_of(got[i])),
                  device);
}

}  // namespace

// Keys and values of two heads whose tokens end behind a block of the depth; 9 rows.
void ComparedKivi::compare(int bits) {
  constexpr std::int64_t kHeads = 2, kTokens = kv::kMultiplyDepth + 64, kDim = 32, kRows = 9;
  kv::HostKivi host;
  std::uint64_t seed = 1;
  const auto numbers = [&](std::int64_t n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& f : x) {
      const std::uint64_t r = splitmix64(seed);
      f = (static_cast<float>(r & 0xffffff) - 8388608.0f) * (r >> 60 == 0 ? 1e-5f : 3e-7f);
    }
    return x;
  };
  const std::string device = name();
  for (const bool values : {false, true}) {
    const kv::KiviArrays sizes{.values = values,
                               .wide = values,
                               .bits = bits,
                               .group = 32,
                               .heads = kHeads,
                               .tokens = kTokens,
                               .head_dim = kDim};
    const std::string what = fmt::format("{} of {} bits", values ? "values" : "keys", bits);
    OwnArrays expected(sizes), got(sizes);
    const std::vector<float> x = numbers(kHeads * kTokens * kDim);
    host.quantize(x.data(), expected.arrays);
    make_arrays(x.data(), got.arrays);
    require_same(expected.codes, got.codes, what + ", codes", device);
    require_same(expected.scales, got.scales, what + ", bytes of scales", device);
    require_same(expected.minima, got.minima, what + ", bytes of minima", device);
    std::vector<float> back(x.size()), back_there(x.size());
    host.dequantize(expected.arrays, back.data());
    read_arrays(expected.arrays, back_there.data());
    require_same(back, back_there, what + ", read back", device);
    const std::vector<float> a = numbers(kHeads * kRows * sizes.depth());
    std::vector<float> out(static_cast<std::size_t>(kHeads * kRows * sizes.lanes())), out_there(out.size());
    host.multiply(a.data(), kRows, expected.arrays, out.data());
    make_products(a.data(), kRows, expected.arrays, out_there.data());
    require_same(out, out_there, what + ", products", device);
  }
}

void ComparedKivi::require_compared(int bits) {
  bool& compared = compared_[bits == 2 ? 0 : bits == 4 ? 1 : 2];
  if (!compared) compare(bits);
  compared = true;
}

void ComparedKivi::require() {
  const std::lock_guard lock(mutex_);
  for (const int bits : {2, 4, 8}) require_compared(bits);
}

void ComparedKivi::do_quantize(const float* x, const kv::KiviArrays& to) {
  const std::lock_guard lock(mutex_);
  require_compared(to.bits);
  make_arrays(x, to);
}

void ComparedKivi::do_dequantize(const kv::KiviArrays& from, float* x) {
  const std::lock_guard lock(mutex_);
  require_compared(from.bits);
  read_arrays(from, x);
}

void ComparedKivi::do_multiply(const float* a, std::int64_t rows, const kv::KiviArrays& by, float* out) {
  const std::lock_guard lock(mutex_);
  require_compared(by.bits);
  make_products(a, rows, by, out);
}

}  // namespace kvasir::device
