#include "kernel/activation_tile.hpp"
#include "kernel/matmul.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

void prepare_int8(const Activations& a, std::int64_t column, const float* x) {
  const Int8Tile t = int8_tile(a, column);
  const std::int64_t c = column % kTileColumns;
  const auto flip = static_cast<std::uint8_t>(KVASIR_HAS_VNNI && a.n > kGemvColumns ? 0x80 : 0);
  for (std::int64_t b = 0; b < a.k / 32; ++b) {
    const F32 x0 = load(x + 32 * b);
    const F32 x1 = load(x + 32 * b + 16);
    const float largest = reduce_max(max(abs(x0), abs(x1)));
    const float d = largest / 127.0f;
    const F32 inverse = set1(largest > 0.0f ? 127.0f / largest : 0.0f);
    const I32 q0 = to_i32(mul(x0, inverse));
    const I32 q1 = to_i32(mul(x1, inverse));
    const std::int64_t i = b * t.columns + c;
    std::int8_t* q = t.q + 32 * i;
    store_low_bytes(q, q0);
    store_low_bytes(q + 16, q1);
    if (flip)
      for (int j = 0; j < 32; ++j) q[j] = static_cast<std::int8_t>(q[j] ^ flip);
    const std::int32_t s0 = reduce_add(q0);
    const std::int32_t s1 = reduce_add(q1);
    t.d[i] = d;
    t.half_sum[2 * i] = s0;
    t.half_sum[2 * i + 1] = s1;
    t.half_dsum[2 * i] = d * static_cast<float>(s0);
    t.half_dsum[2 * i + 1] = d * static_cast<float>(s1);
    t.dsum[i] = d * static_cast<float>(s0 + s1);
  }
}

void prepare_bf16(const Activations& a, std::int64_t column, const float* x) {
  std::int64_t columns;
  auto* tile = reinterpret_cast<std::uint16_t*>(activation_tile(a, column, columns));
  std::uint16_t* out = tile + 2 * (column % kTileColumns);
  std::uint16_t bits[16];
  for (std::int64_t k = 0; k < a.k; k += 16) {
    const int n = static_cast<int>(a.k - k < 16 ? a.k - k : 16);
    store_bf16(bits, load_n(x + k, n));
    for (int j = 0; j < n; ++j) out[(k + j) / 2 * 2 * columns + (k + j) % 2] = bits[j];
    if (n % 2) out[(k + n) / 2 * 2 * columns + 1] = 0;
  }
}

void prepare_f32(const Activations& a, std::int64_t column, const float* x) {
  std::int64_t columns;
  auto* tile = reinterpret_cast<float*>(activation_tile(a, column, columns));
  float* out = tile + column % kTileColumns;
  for (std::int64_t k = 0; k < a.k; ++k) out[k * columns] = x[k];
}

void prepare(const Activations& a, std::int64_t column, const float* x) {
  switch (a.kind) {
    case ActivationKind::kInt8: return prepare_int8(a, column, x);
    case ActivationKind::kBf16: return prepare_bf16(a, column, x);
    case ActivationKind::kF32: return prepare_f32(a, column, x);
  }
}

}  // namespace

extern const ActivationKernels activation_table;
const ActivationKernels activation_table = {prepare};

}  // namespace kvasir::kernel::KVASIR_TARGET
