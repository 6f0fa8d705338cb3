#include "weights/safetensors/int4_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "simd/half.hpp"
#include "weights/pieces.hpp"

namespace kvasir::weights {
namespace {

constexpr std::int64_t kBlock = 32, kBlockBytes = 20;  // of int4_zero
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr std::string_view kAwqParts[] = {"qweight", "qzeros", "scales"};
constexpr std::string_view kGptqParts[] = {"qweight", "qzeros", "scales", "g_idx"};
constexpr std::string_view kCompressedParts[] = {"weight_packed", "weight_scale", "weight_zero_point", "weight_shape",
                                                 "weight_g_idx"};

std::span<const std::string_view> parts_of(Int4Method method) {
  if (method == Int4Method::kAwq) return kAwqParts;
  if (method == Int4Method::kGptq) return kGptqParts;
  return kCompressedParts;
}

std::uint32_t word(const std::byte* data, std::int64_t i) {
  std::uint32_t w;
  std::memcpy(&w, data + 4 * i, 4);
  return w;
}

// Where code and zero of (output o, input i or group g) are: the nibble of a word.
struct CodePlace {
  std::int64_t word;
  int shift;
};

// Numbers of a part, of whichever float type.
struct Numbers {
  const std::byte* data = nullptr;
  bool wide = false, brain = false;  // F32; BF16, else F16

  float operator[](std::int64_t i) const {
    float x;
    std::uint16_t half;
    if (wide) return std::memcpy(&x, data + 4 * i, 4), x;
    std::memcpy(&half, data + 2 * i, 2);
    return brain ? simd::bf16_to_f32(half) : simd::f16_to_f32(half);
  }
};

struct Matrix {
  Int4Method method;
  std::int64_t in = 0, out = 0, groups = 0;
  const std::byte* codes = nullptr;
  const std::byte* zeros = nullptr;  // null: z is 8 everywhere
  bool zeros_less_one = false;
  Numbers scales;
  const std::byte* group_of = nullptr;  // int32 (in); null: in / groups inputs each, one group behind the other
  std::vector<std::span<const std::byte>> pieces;

  CodePlace code(std::int64_t o, std::int64_t i) const {
    if (method == Int4Method::kAwq) return {i * (out / 8) + o / 8, 4 * kAwqNibble[o % 8]};
    if (method == Int4Method::kGptq) return {i / 8 * out + o, static_cast<int>(4 * (i % 8))};
    return {o * ((in + 7) / 8) + i / 8, static_cast<int>(4 * (i % 8))};
  }
  int zero(std::int64_t o, std::int64_t g) const {
    if (!zeros) return 8;
    if (method == Int4Method::kCompressed) return nibble(zeros, {o / 8 * groups + g, static_cast<int>(4 * (o % 8))});
    const int at = static_cast<int>(method == Int4Method::kAwq ? kAwqNibble[o % 8] : o % 8);
    const int z = nibble(zeros, {g * (out / 8) + o / 8, 4 * at});
    return zeros_less_one ? (z + 1) & 15 : z;
  }
  float scale(std::int64_t o, std::int64_t g) const {
    return scales[method == Int4Method::kCompressed ? o * groups + g : g * out + o];
  }
  std::int64_t group(std::int64_t i) const {
    return group_of ? static_cast<std::int32_t>(word(group_of, i)) : i / (in / groups);
  }
  int q(std::int64_t o, std::int64_t i) const { return nibble(codes, code(o, i)); }
  static int nibble(const std::byte* data, CodePlace p) { return static_cast<int>(word(data, p.word) >> p.shift & 15); }
};

// Rows in blocks of int4_zero, block by block of all rows, so that words that rows share are read once from memory.
// With an order input order[i] of the file is column i, and groups are runs of columns.
class BlockRows final : public PiecedRows {
 public:
  BlockRows(Matrix m, std::shared_ptr<const std::vector<std::int32_t>> order)
      : m_(std::move(m)), order_(std::move(order)) {}
  std::int64_t row_bytes() const override { return m_.in / kBlock * kBlockBytes; }
  std::vector<std::span<const std::byte>> pieces() const override { return m_.pieces; }

  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    for (std::int64_t i = 0; i < m_.in; i += kBlock) {
      std::array<std::int64_t, kBlock> input;
      for (std::int64_t j = 0; j < kBlock; ++j)
        input[static_cast<std::size_t>(j)] = order_ ? (*order_)[static_cast<std::size_t>(i + j)] : i + j;
      const std::int64_t group = m_.group(input[0]);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        std::byte* const block = out + static_cast<std::int64_t>(r) * row_bytes() + i / kBlock * kBlockBytes;
        const std::uint16_t d = simd::f32_to_f16(m_.scale(rows[r], group));
        std::memcpy(block, &d, 2);
        block[2] = static_cast<std::byte>(m_.zero(rows[r], group));
        block[3] = std::byte{0};
        for (std::size_t j = 0; j < kBlock / 2; ++j)
          block[4 + j] = static_cast<std::byte>(m_.q(rows[r], input[j]) | m_.q(rows[r], input[j + kBlock / 2]) << 4);
      }
    }
  }

 private:
  const Matrix m_;
  const std::shared_ptr<const std::vector<std::int32_t>> order_;
};

// Rows of floats in the file's order, of matrices whose groups are not runs of inputs. (q - z) s has at most 16 bits.
class FloatRows final : public PiecedRows {
 public:
  explicit FloatRows(Matrix m) : m_(std::move(m)) {}
  std::int64_t row_bytes() const override { return 4 * m_.in; }
  std::vector<std::span<const std::byte>> pieces() const override { return m_.pieces; }

  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    for (std::int64_t i = 0; i < m_.in; ++i) {
      const std::int64_t g = m_.group(i);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const std::int64_t o = rows[r];
        const float x =
            static_cast<float>(m_.q(o, i) - m_.zero(o, g)) * simd::f16_to_f32(simd::f32_to_f16(m_.scale(o, g)));
        std::memcpy(out + static_cast<std::int64_t>(r) * row_bytes() + 4 * i, &x, 4);
      }
    }
  }

 private:
  const Matrix m_;
};

// The parts of one matrix, checked.
class Reader {
 public:
  Reader(const Int4Config& config, const std::map<std::string, ShardTensor>& parts, const std::string& stem,
         const std::string& path)
      : config_(config), parts_(parts), stem_(stem), path_(path) {}

  TensorInfo read() {
    m_.method = config_.method;
    const bool compressed = config_.method == Int4Method::kCompressed;
    compressed ? read_compressed() : read_grouped();
    if (m_.in % kBlock != 0) fail(codes_->name, fmt::format("is for {} inputs, expected a multiple of 32", m_.in));
    const std::int64_t group = config_.group == 0 ? m_.in : config_.group;
    if (group % kBlock != 0 || m_.in % group != 0 || m_.groups != m_.in / group)
      fail(codes_->name, fmt::format("{} inputs in {} groups, expected groups of {} ('group_size'), a multiple of 32",
                                     m_.in, m_.groups, group));
    const auto order = read_order(group);
    TensorInfo t;
    t.rank = 2;
    t.shape = {m_.in, m_.out, 1, 1};
    t.bytes = codes_->bytes;
    if (!m_.group_of) {
      t.quant = "int4_zero";
      t.source = std::make_shared<BlockRows>(std::move(m_), nullptr);
      return t;
    }
    if (order)
      t.ordered =
          std::make_shared<OrderedRows>(OrderedRows{"int4_zero", std::make_shared<BlockRows>(m_, order), order});
    t.quant = "f32";
    t.source = std::make_shared<FloatRows>(std::move(m_));
    return t;
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& why) const {
    throw Error(Code::kBadInput, fmt::format("tensor {}: {}", name.substr(0, 200), why), path_);
  }
  const ShardTensor* find(const std::string& part) const {
    const auto it = parts_.find(part);
    return it == parts_.end() ? nullptr : &it->second;
  }
  const ShardTensor& require(const std::string& part, std::size_t rank) const {
    const ShardTensor* t = find(part);
    if (!t) fail(stem_ + "." + part, "is missing");
    if (t->shape.size() != rank) fail(t->name, fmt::format("has {} dimensions, expected {}", t->shape.size(), rank));
    return *t;
  }
  void expect(const ShardTensor& t, std::int64_t rows, std::int64_t columns) const {
    if (t.shape[0] != rows || t.shape[1] != columns)
      fail(t.name, fmt::format("is {}x{}, expected {}x{}", t.shape[0], t.shape[1], rows, columns));
  }
  const ShardTensor& words(const std::string& part) const {
    const ShardTensor& t = require(part, 2);
    if (t.dtype != "I32") fail(t.name, fmt::format("is {}, expected I32", t.dtype));
    return t;
  }

  // AWQ and GPTQ.
  void read_grouped() {
    const bool awq = config_.method == Int4Method::kAwq;
    codes_ = &words("qweight");
    m_.in = codes_->shape[0] * (awq ? 1 : 8);
    m_.out = codes_->shape[1] * (awq ? 8 : 1);
    const ShardTensor& scales = require("scales", 2);
    m_.groups = scales.shape[0];
    if (m_.in < 1 || m_.out < 1 || m_.groups < 1 || m_.out % 8 != 0)
      fail(codes_->name, fmt::format("is for {} inputs, {} outputs and {} groups, expected some, and outputs in eights",
                                     m_.in, m_.out, m_.groups));
    expect(scales, m_.groups, m_.out);
    read_scales(scales);
    const ShardTensor& zeros = words("qzeros");
    expect(zeros, m_.groups, m_.out / 8);
    m_.codes = codes_->bytes.data();
    m_.zeros = zeros.bytes.data();
    m_.pieces = {codes_->bytes, scales.bytes, zeros.bytes};
    m_.zeros_less_one = config_.zeros_less_one;
  }

  void read_compressed() {
    codes_ = &words("weight_packed");
    const ShardTensor& shape = require("weight_shape", 1);
    if (shape.dtype != "I64" || shape.shape[0] != 2) fail(shape.name, "expected two I64: outputs and inputs");
    std::int64_t sizes[2];
    std::memcpy(sizes, shape.bytes.data(), sizeof sizes);
    m_.out = codes_->shape[0];
    m_.in = sizes[1];
    if (sizes[0] != m_.out || m_.in < 1 || m_.in > 8 * codes_->shape[1] || m_.in <= 8 * (codes_->shape[1] - 1))
      fail(shape.name, fmt::format("says {}x{} of {}x{} words of eight", sizes[0], sizes[1], m_.out, codes_->shape[1]));
    const ShardTensor& scales = require("weight_scale", 2);
    m_.groups = scales.shape[1];
    if (m_.groups < 1) fail(scales.name, "has no groups");
    expect(scales, m_.out, m_.groups);
    read_scales(scales);
    m_.codes = codes_->bytes.data();
    m_.pieces = {codes_->bytes, scales.bytes};
    if (!find("weight_zero_point")) return;
    const ShardTensor& zeros = words("weight_zero_point");
    expect(zeros, (m_.out + 7) / 8, m_.groups);
    m_.zeros = zeros.bytes.data();
    m_.pieces.push_back(zeros.bytes);
  }

  void read_scales(const ShardTensor& t) {
    if (t.dtype != "F16" && t.dtype != "BF16" && t.dtype != "F32")
      fail(t.name, fmt::format("is {}, expected F16, BF16 or F32", t.dtype));
    m_.scales = {t.bytes.data(), t.dtype == "F32", t.dtype == "BF16"};
    for (std::int64_t i = 0; i < m_.groups * m_.out; ++i) {
      const float x = m_.scales[i];
      // int4_zero has f16: bf16 has a range that it lacks, but no digits.
      const float half = simd::f16_to_f32(simd::f32_to_f16(x));
      if (!std::isfinite(x) || (half != x && std::abs(x) >= 0x1p-14f))
        fail(t.name, fmt::format("[{}] is {}, expected a number that f16 has", i, x));
    }
  }

  // The order of activations, by which GPTQ quantised. Returns inputs by their groups, if that makes groups of `group`.
  std::shared_ptr<const std::vector<std::int32_t>> read_order(std::int64_t group) {
    const char* const part = config_.method == Int4Method::kCompressed ? "weight_g_idx" : "g_idx";
    if (!find(part)) return nullptr;
    const ShardTensor& t = require(part, 1);
    if (t.dtype != "I32" || t.shape[0] != m_.in)
      fail(t.name, fmt::format("is {} of {}, expected {} of I32", t.shape[0], t.dtype, m_.in));
    std::vector<std::int32_t> next(static_cast<std::size_t>(m_.groups + 1));  // where a group's next input goes
    bool runs = true;
    for (std::int64_t i = 0; i < m_.in; ++i) {
      const auto g = static_cast<std::int32_t>(word(t.bytes.data(), i));
      if (g < 0 || g >= m_.groups) fail(t.name, fmt::format("[{}] is {}, expected 0..{}", i, g, m_.groups - 1));
      runs = runs && g == i / group;
      ++next[static_cast<std::size_t>(g) + 1];
    }
    if (runs) return nullptr;
    m_.group_of = t.bytes.data();
    m_.pieces.push_back(t.bytes);
    if (std::any_of(next.begin() + 1, next.end(), [&](std::int32_t n) { return n != group; })) return nullptr;
    for (std::size_t g = 1; g < next.size(); ++g) next[g] += next[g - 1];
    std::vector<std::int32_t> order(static_cast<std::size_t>(m_.in));
    for (std::int64_t i = 0; i < m_.in; ++i)
      order[static_cast<std::size_t>(next[static_cast<std::size_t>(m_.group(i))]++)] = static_cast<std::int32_t>(i);
    return std::make_shared<const std::vector<std::int32_t>>(std::move(order));
  }

  const Int4Config& config_;
  const std::map<std::string, ShardTensor>& parts_;
  const std::string& stem_;
  const std::string& path_;
  const ShardTensor* codes_ = nullptr;
  Matrix m_{};
};

}  // namespace

Int4Config read_int4_config(const ConfigFields& fields) {
  Int4Config c;
  const auto method = fields.text_if("quant_method");
  if (!method) fields.bad("quant_method", "is missing");
  const auto group = [&](const ConfigFields& of) {
    const std::int64_t n = of.integer_if("group_size", -1, 1 << 24).value_or(128);
    if (n == 0) of.bad("group_size", "is 0, expected -1 or more than 0");
    return n < 0 ? 0 : n;
  };
  const auto bits = [&](const ConfigFields& of, const char* name) {
    if (const auto n = of.integer_if(name, 1, 64); n != 4)
      of.unsupported(name, fmt::format("is {}, expected 4", n ? std::to_string(*n) : "missing"));
  };
  if (*method == "awq") {
    bits(fields, "bits");
    c.group = group(fields);
    if (const auto version = fields.text_if("version"); version && *version != "gemm" && *version != "GEMM")
      fields.unsupported("version", fmt::format("is '{}', expected 'gemm'", version->substr(0, 40)));
  } else if (*method == "gptq") {
    c.method = Int4Method::kGptq;
    bits(fields, "bits");
    c.group = group(fields);
    const std::string format = fields.text_if("checkpoint_format").value_or("gptq");
    if (format != "gptq" && format != "gptq_v2")
      fields.unsupported("checkpoint_format",
                         fmt::format("is '{}', expected 'gptq' or 'gptq_v2'", format.substr(0, 40)));
    c.zeros_less_one = format == "gptq";
  } else {
    fields.unsupported("quant_method",
                       fmt::format("is '{}', expected awq, gptq or compressed-tensors", method->substr(0, 40)));
  }
  return c;
}

std::optional<Int4Part> int4_part(std::string_view name, Int4Method method) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  const std::string_view part = name.substr(dot + 1);
  const auto parts = parts_of(method);
  if (std::find(parts.begin(), parts.end(), part) == parts.end()) return std::nullopt;
  return Int4Part{std::string(name.substr(0, dot)), std::string(part)};
}

TensorInfo int4_matrix(const Int4Config& config, const std::map<std::string, ShardTensor>& parts,
                       const std::string& stem, const std::string& path) {
  return Reader(config, parts, stem, path).read();
}

}  // namespace kvasir::weights
