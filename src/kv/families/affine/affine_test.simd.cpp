#include "kv/families/affine/affine_fixture.hpp"
#include "kv/families/affine/encode.hpp"
#include "simd/half.hpp"

namespace kvasir::kv::KVASIR_TARGET {
namespace {

using namespace entries::codecs::KVASIR_TARGET;
using namespace simd::KVASIR_TARGET;

constexpr int kMost = 64;  // numbers of a test group

// The same group in all 16 lanes.
struct Spread {
  alignas(64) float x[kMost * kLanes];
  Spread(const float* group, int n) {
    for (int i = 0; i < n * kLanes; ++i) x[i] = group[i / kLanes];
  }
};

template <int B>
TestGroup quantize_bits(const float* x, int n, std::uint8_t* codes) {
  const Spread spread(x, n);
  std::uint16_t s[kLanes];
  std::uint16_t m[kLanes];
  std::uint8_t all[kMost * kLanes];
  ColumnScaled<MinMax<B>>::encode_column(spread.x, kLanes, n, s, m, all);
  for (int i = 0; i < n; ++i) codes[i] = all[i * kLanes];
  return {simd::f16_to_f32(s[0]), simd::f16_to_f32(m[0])};
}

TestGroup quantize(int bits, const float* x, int n, std::uint8_t* codes) {
  return bits == 2 ? quantize_bits<2>(x, n, codes) : quantize_bits<4>(x, n, codes);
}

template <int B>
float step_bits(const float* x, int n, float s, float m, float beta) {
  const Spread spread(x, n);
  const HqqStep step =
      kvasir::kv::entries::codecs::KVASIR_TARGET::hqq_step<MinMax<B>>(spread.x, kLanes, n, set1(m), set1(1 / s), beta);
  float out[kLanes];
  store(out, fma(step.move, set1(s), set1(m)));
  return out[3];
}

float step(int bits, const float* x, int n, float s, float m, float beta) {
  return bits == 2 ? step_bits<2>(x, n, s, m, beta) : step_bits<4>(x, n, s, m, beta);
}

float power(float x) {
  float out[kLanes];
  store(out, entries::codecs::KVASIR_TARGET::power_of_error(set1(x)));
  return out[9];
}

}  // namespace

extern const AffineTestKernels affine_test_table;
const AffineTestKernels affine_test_table = {quantize, step, power};

}  // namespace kvasir::kv::KVASIR_TARGET
