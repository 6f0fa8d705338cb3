#include "weights/safetensors/f8_rows.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "simd/half.hpp"

namespace kvasir::weights {
namespace {

constexpr std::string_view kE4 = "F8_E4M3", kE5 = "F8_E5M2";
constexpr std::string_view kScaleNames[] = {".weight_scale_inv", ".weight_scale"};

class Rows final : public RowSource {
 public:
  std::int64_t out = 0, in = 0;
  const std::byte* codes = nullptr;
  std::vector<float> scales;                       // (ceil(out / block_rows), ceil(in / block_columns)); empty: 1
  std::int64_t block_rows = 1, block_columns = 1;  // of a scale
  std::array<float, 256> values{};
  bool as_they_are = false;  // f8_e4m3, else f16

  std::int64_t row_bytes() const override { return as_they_are ? in / kF8Block * kF8BlockBytes : 2 * in; }
  float scale(std::int64_t row, std::int64_t i) const {
    const std::int64_t wide = (in + block_columns - 1) / block_columns;
    return scales.empty() ? 1.0f : scales[static_cast<std::size_t>(row / block_rows * wide + i / block_columns)];
  }
  void read(std::span<const std::int64_t> rows, std::byte* to) const override {
    for (const std::int64_t row : rows) {
      if (as_they_are) {
        for (std::int64_t i = 0; i < in; i += kF8Block, to += kF8BlockBytes)
          put_f8_block(codes + row * in + i, scale(row, i), to);
        continue;
      }
      for (std::int64_t i = 0; i < in; ++i, to += 2) {
        const float x = values[std::to_integer<std::size_t>(codes[row * in + i])] * scale(row, i);
        const std::uint16_t half = simd::f32_to_f16(x);
        std::memcpy(to, &half, 2);
      }
    }
  }
};

}  // namespace

std::optional<F8Blocks> read_f8_config(const ConfigFields& fields) {
  const auto method = fields.text_if("quant_method");
  if (method != "fp8") return std::nullopt;
  F8Blocks blocks;
  if (const FolderJson* size = fields.array("weight_block_size")) {
    if (size->size() != 2 || !(*size)[0].is_number_unsigned() || !(*size)[1].is_number_unsigned())
      fields.bad("weight_block_size", "expected two numbers of at least 1");
    blocks = {(*size)[0].get<std::int64_t>(), (*size)[1].get<std::int64_t>()};
    if (blocks.rows < 1 || blocks.columns < 1) fields.bad("weight_block_size", "expected two numbers of at least 1");
  }
  return blocks;
}

// Sign, `exponent` bits and the rest; E4M3 has no infinity and one NaN, all ones.
float f8_value(int code, int exponent) {
  const int digits = 7 - exponent, bias = (1 << (exponent - 1)) - 1;
  const int e = code >> digits & ((1 << exponent) - 1), m = code & ((1 << digits) - 1);
  const float sign = code & 128 ? -1.0f : 1.0f;
  const bool top = e == (1 << exponent) - 1;
  if (exponent == 4 && top && m == 7) return NAN;
  if (exponent == 5 && top) return m == 0 ? sign * INFINITY : NAN;
  if (e == 0) return sign * std::ldexp(static_cast<float>(m), 1 - bias - digits);
  return sign * std::ldexp(static_cast<float>(m + (1 << digits)), e - bias - digits);
}

void put_f8_block(const std::byte* codes, float scale, std::byte* to) {
  for (std::int64_t i = 0; i < kF8Block; ++i)
    if ((codes[i] & std::byte{127}) == std::byte{127}) scale = NAN;
  std::memcpy(to, &scale, 4);
  std::memcpy(to + 4, codes, kF8Block);
}

bool is_f8(std::string_view dtype) { return dtype == kE4 || dtype == kE5; }

std::optional<std::string> f8_scale(std::string_view name) {
  for (const std::string_view end : kScaleNames)
    if (name.ends_with(end)) return std::string(name.substr(0, name.size() - end.size()));
  return std::nullopt;
}

TensorInfo f8_matrix(const ShardTensor& weight, const ShardTensor* scale, const F8Blocks& blocks,
                     const std::string& path) {
  const auto fail = [&](const ShardTensor& t, const std::string& why) {
    throw Error(Code::kBadInput, fmt::format("tensor {}: {}", t.name.substr(0, 200), why), path);
  };
  if (weight.shape.size() != 2 || weight.shape[0] < 1 || weight.shape[1] < 1)
    fail(weight, fmt::format("has {} dimensions, expected a matrix", weight.shape.size()));
  auto rows = std::make_shared<Rows>();
  rows->out = weight.shape[0];
  rows->in = weight.shape[1];
  rows->codes = weight.bytes.data();
  for (std::size_t i = 0; i < rows->values.size(); ++i)
    rows->values[i] = f8_value(static_cast<int>(i), weight.dtype == kE4 ? 4 : 5);
  if (scale) {
    if (scale->dtype != "F32" && scale->dtype != "BF16")
      fail(*scale, fmt::format("is {}, expected F32 or BF16", scale->dtype));
    const bool in_blocks = scale->name.ends_with("_inv");
    if (in_blocks && blocks.rows == 0) fail(*scale, "is of blocks, but 'weight_block_size' is missing");
    const std::int64_t n = static_cast<std::int64_t>(scale->bytes.size()) / (scale->dtype == "F32" ? 4 : 2);
    if (in_blocks) {
      rows->block_rows = blocks.rows;
      rows->block_columns = blocks.columns;
      const std::int64_t high = (rows->out + blocks.rows - 1) / blocks.rows;
      const std::int64_t wide = (rows->in + blocks.columns - 1) / blocks.columns;
      if (scale->shape.size() != 2 || scale->shape[0] != high || scale->shape[1] != wide)
        fail(*scale, fmt::format("expected {}x{} numbers", high, wide));
    } else {
      if (n != 1 && n != rows->out) fail(*scale, fmt::format("has {} numbers, expected 1 or {}", n, rows->out));
      rows->block_rows = n == 1 ? rows->out : 1;
      rows->block_columns = rows->in;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      float x;
      std::uint16_t half;
      if (scale->dtype == "F32")
        std::memcpy(&x, scale->bytes.data() + 4 * i, 4);
      else
        std::memcpy(&half, scale->bytes.data() + 2 * i, 2), x = simd::bf16_to_f32(half);
      if (!std::isfinite(x)) fail(*scale, fmt::format("[{}] is not a finite number", i));
      rows->scales.push_back(x);
    }
  }
  rows->as_they_are =
      weight.dtype == kE4 && rows->in % kF8Block == 0 && (rows->scales.empty() || rows->block_columns % kF8Block == 0);
  TensorInfo t;
  t.quant = rows->as_they_are ? "f8_e4m3" : "f16";
  t.rank = 2;
  t.shape = {rows->in, rows->out, 1, 1};
  t.bytes = weight.bytes;
  t.source = std::move(rows);
  return t;
}

}  // namespace kvasir::weights
