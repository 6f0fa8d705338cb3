// Rows of codes in the weight types that coded_rows.cpp chooses from. For it alone.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "simd/half.hpp"
#include "weights/pieces.hpp"
#include "weights/safetensors/f8_rows.hpp"

namespace kvasir::weights {

inline constexpr std::int64_t kCodedBlock = 32, kAffineBlock = 64, kNvBlock = 64, kNvGroup = 16;
inline constexpr std::array<float, 16> kFourBits{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// Numbers of a part, of whichever type.
struct CodedNumbers {
  enum class Type { kF32, kF16, kBf16, kExponent, kF8 };
  const std::byte* data = nullptr;
  Type type = Type::kF32;

  float operator[](std::int64_t i) const {
    float x;
    std::uint16_t half;
    switch (type) {
      case Type::kF32:
        return std::memcpy(&x, data + 4 * i, 4), x;
      case Type::kExponent:
        return std::ldexp(1.0f, std::to_integer<int>(data[i]) - 127);
      case Type::kF8:
        return f8_value(std::to_integer<int>(data[i]), 4);
      default:
        std::memcpy(&half, data + 2 * i, 2);
        return type == Type::kBf16 ? simd::bf16_to_f32(half) : simd::f16_to_f32(half);
    }
  }
};

// At most 16 significant bits, as the scales of affine codes.
inline bool is_short(float x) {
  std::uint32_t bits;
  return std::memcpy(&bits, &x, 4), (bits & 255) == 0;
}
inline bool is_half(float x) { return simd::f16_to_f32(simd::f32_to_f16(x)) == x; }

enum class Layout { kStream, kWords, kBytes };

struct CodedRowsOf {
  std::int64_t in = 0, out = 0;  // out: of all matrices
  Layout layout = Layout::kBytes;
  int bits = 8;
  const std::byte* codes = nullptr;
  std::int64_t row_bytes = 0;       // of codes
  std::array<float, 256> levels{};  // of codes
  CodedNumbers scales;              // (ceil(out / block_rows), wide)
  std::int64_t block_rows = 1, group = 1, wide = 1;
  float divisor = 1;                    // of scales
  CodedNumbers biases;                  // as scales; data null: none
  const std::byte* zeros = nullptr;     // int8 as scales, or packed along `out`; null: none
  const std::byte* group_of = nullptr;  // int32 (in); null: in runs of `group`
  std::vector<std::span<const std::byte>> pieces;

  std::int64_t scale_at(std::int64_t o, std::int64_t i) const {
    std::int32_t g;
    if (group_of) return std::memcpy(&g, group_of + 4 * i, 4), o / block_rows * wide + g;
    return o / block_rows * wide + i / group;
  }
  // Code i of a row, or of a column of words that are `step` bytes apart.
  unsigned code(const std::byte* row, std::int64_t i, std::int64_t step = 4) const {
    if (layout == Layout::kBytes) return std::to_integer<unsigned>(row[i]);
    const auto word = [&](std::int64_t w) {
      std::uint32_t x;
      return std::memcpy(&x, row + step * w, 4), x;
    };
    const std::uint32_t mask = (1u << bits) - 1;
    if (const std::int64_t per = 32 / bits; layout == Layout::kWords)
      return word(i / per) >> static_cast<int>(i % per) * bits & mask;
    const std::int64_t bit = i * bits, rest = bit % 32;
    std::uint64_t both = word(bit / 32);
    if (rest + bits > 32) both |= static_cast<std::uint64_t>(word(bit / 32 + 1)) << 32;
    return static_cast<unsigned>(both >> rest) & mask;
  }
  float zero(std::int64_t o, std::int64_t at) const {
    if (!zeros) return 0;
    if (layout == Layout::kBytes) return static_cast<float>(static_cast<std::int8_t>(zeros[at]));
    return levels[code(zeros + 4 * (at % wide), o, 4 * wide)];
  }
};

class CodedAs : public PiecedRows {
 public:
  CodedAs(CodedRowsOf m, std::int64_t block, std::int64_t block_bytes)
      : m_(std::move(m)), block_(block), block_bytes_(block_bytes) {}
  std::int64_t row_bytes() const override { return m_.in / block_ * block_bytes_; }
  std::vector<std::span<const std::byte>> pieces() const override { return m_.pieces; }
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    for (const std::int64_t o : rows)
      for (std::int64_t i = 0; i < m_.in; i += block_, out += block_bytes_) write(o, i, out);
  }

 protected:
  virtual void write(std::int64_t o, std::int64_t i, std::byte* block) const = 0;
  unsigned code(std::int64_t o, std::int64_t i) const { return m_.code(m_.codes + o * m_.row_bytes, i); }
  float level(std::int64_t o, std::int64_t i, std::int64_t at) const { return m_.levels[code(o, i)] - m_.zero(o, at); }
  float value(std::int64_t o, std::int64_t i) const {
    const std::int64_t at = m_.scale_at(o, i);
    const float x = level(o, i, at) * (m_.divisor == 1 ? m_.scales[at] : m_.scales[at] / m_.divisor);
    return m_.biases.data ? x + m_.biases[at] : x;
  }
  void put_half(float x, std::byte* to) const {
    const std::uint16_t half = simd::f32_to_f16(x);
    std::memcpy(to, &half, 2);
  }
  const CodedRowsOf m_;

 private:
  const std::int64_t block_, block_bytes_;
};

class AsFloats final : public CodedAs {
 public:
  explicit AsFloats(CodedRowsOf m) : CodedAs(std::move(m), 1, 4) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    const float x = value(o, i);
    std::memcpy(to, &x, 4);
  }
};

class AsBf16 final : public CodedAs {
 public:
  explicit AsBf16(CodedRowsOf m) : CodedAs(std::move(m), 1, 2) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    const std::uint16_t half = simd::f32_to_bf16(value(o, i));
    std::memcpy(to, &half, 2);
  }
};

class AsQ8 final : public CodedAs {
 public:
  explicit AsQ8(CodedRowsOf m) : CodedAs(std::move(m), kCodedBlock, 34) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    const std::int64_t at = m_.scale_at(o, i);
    put_half(m_.scales[at], to);
    for (std::int64_t j = 0; j < kCodedBlock; ++j)
      to[2 + j] = static_cast<std::byte>(static_cast<int>(level(o, i + j, at)));
  }
};

// Q4_1, or Q5_1 with the highest bits before the nibbles.
class AsNibbles final : public CodedAs {
 public:
  explicit AsNibbles(CodedRowsOf m) : CodedAs(std::move(m), kCodedBlock, m.bits > 4 ? 24 : 20) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    const std::int64_t at = m_.scale_at(o, i);
    put_half(m_.scales[at], to);
    put_half(m_.biases[at], to + 2);
    std::byte* const nibbles = to + (m_.bits > 4 ? 8 : 4);
    std::uint32_t high = 0;
    for (std::int64_t j = 0; j < 16; ++j) {
      const unsigned a = code(o, i + j), b = code(o, i + j + 16);
      nibbles[j] = static_cast<std::byte>((a & 15) | (b & 15) << 4);
      high |= (a >> 4 & 1) << j | (b >> 4 & 1) << (j + 16);
    }
    if (m_.bits > 4) std::memcpy(to + 4, &high, 4);
  }
};

class AsF8 final : public CodedAs {
 public:
  explicit AsF8(CodedRowsOf m) : CodedAs(std::move(m), kF8Block, kF8BlockBytes) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    put_f8_block(m_.codes + o * m_.row_bytes + i, m_.scales[m_.scale_at(o, i)], to);
  }
};

// affine6 or affine8 (weights/families/affine_codes.hpp). Without biases codes stand for levels from the first on.
class AsAffine final : public CodedAs {
 public:
  explicit AsAffine(CodedRowsOf m) : CodedAs(std::move(m), kAffineBlock, 8 + kAffineBlock * m.bits / 8) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    const std::int64_t at = m_.scale_at(o, i);
    const float s = m_.scales[at], b = m_.biases.data ? m_.biases[at] : s * (m_.levels[first_] - m_.zero(o, at));
    std::memcpy(to, &s, 4);
    std::memcpy(to + 4, &b, 4);
    if (m_.bits == 8) {
      for (std::int64_t j = 0; j < kAffineBlock; ++j) to[8 + j] = static_cast<std::byte>(code(o, i + j) ^ first_);
      return;
    }
    for (std::int64_t j = 0; j < 32; ++j)
      to[8 + j] = static_cast<std::byte>((code(o, i + j) & 15) | (code(o, i + j + 32) & 15) << 4);
    for (std::int64_t j = 0; j < 16; ++j)
      to[40 + j] = static_cast<std::byte>(code(o, i + j) >> 4 | code(o, i + j + 16) >> 4 << 2 |
                                          code(o, i + j + 32) >> 4 << 4 | code(o, i + j + 48) >> 4 << 6);
  }

 private:
  const unsigned first_ = m_.layout == Layout::kBytes ? 128 : 0;  // the code of the least level: bytes are signed
};

class AsNvfp4 final : public CodedAs {
 public:
  explicit AsNvfp4(CodedRowsOf m) : CodedAs(std::move(m), kNvBlock, 36) {}
  void write(std::int64_t o, std::int64_t i, std::byte* to) const override {
    for (std::int64_t s = 0; s < 4; ++s) {
      to[s] = m_.scales.data[m_.scale_at(o, i + s * kNvGroup)];
      for (std::int64_t j = 0; j < 8; ++j)
        to[4 + 8 * s + j] =
            static_cast<std::byte>(code(o, i + s * kNvGroup + j) | code(o, i + s * kNvGroup + j + 8) << 4);
    }
  }
};

}  // namespace kvasir::weights
