#include "weights/safetensors/coded_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "weights/safetensors/coded_forms.hpp"
#include "weights/safetensors/int4_rows.hpp"
#include "weights/safetensors/made.hpp"

namespace kvasir::weights {
namespace {

// The parts of one matrix, checked.
class CodedReader {
 public:
  CodedReader(const CodedConfig& config, const std::map<std::string, ShardTensor>& parts, const std::string& stem,
              bool factors, const std::string& path)
      : config_(config), parts_(parts), stem_(stem), factors_(factors), path_(path) {}

  CodedMatrix read() {
    if (config_.mlx) return read_mlx();
    if (const ShardTensor* packed = find("weight_packed")) {
      if (packed->dtype == "U8") return read_floats_of_four(*packed);
      return read_packed(*packed);
    }
    const ShardTensor& weight = matrix("weight", 2);
    if (weight.dtype == "I8") return read_bytes(weight);
    return read_f8(weight);
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& why) const {
    throw Error(Code::kBadInput, fmt::format("tensor {}: {}", name.substr(0, 200), why), path_);
  }
  const ShardTensor* find(const char* part) const {
    const auto it = parts_.find(part);
    return it == parts_.end() ? nullptr : &it->second;
  }
  const ShardTensor& require(const char* part) const {
    const ShardTensor* t = find(part);
    if (!t) fail(stem_ + "." + part, "is missing");
    return *t;
  }
  const ShardTensor& matrix(const char* part, std::size_t rank) const {
    const ShardTensor& t = require(part);
    if (t.shape.size() != rank) fail(t.name, fmt::format("has {} dimensions, expected {}", t.shape.size(), rank));
    for (const std::int64_t n : t.shape)
      if (n < 1) fail(t.name, "is empty");
    return t;
  }
  static std::int64_t count(const ShardTensor& t) {
    std::int64_t n = 1;
    for (const std::int64_t d : t.shape) n *= d;
    return n;
  }

  CodedNumbers numbers(const ShardTensor& t, bool of_bytes) const {
    using Type = CodedNumbers::Type;
    if (t.dtype == "F32") return {t.bytes.data(), Type::kF32};
    if (t.dtype == "F16") return {t.bytes.data(), Type::kF16};
    if (t.dtype == "BF16") return {t.bytes.data(), Type::kBf16};
    if (of_bytes && t.dtype == "U8") return {t.bytes.data(), Type::kExponent};
    fail(t.name, fmt::format("is {}, expected F32, F16 or BF16{}", t.dtype, of_bytes ? ", or U8" : ""));
  }
  static bool all_short(const CodedNumbers& x, std::int64_t n) {
    for (std::int64_t i = 0; i < n && x.type == CodedNumbers::Type::kF32; ++i)
      if (!is_short(x[i])) return false;
    return true;
  }
  static bool all_halves(const CodedNumbers& x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      if (!is_half(x[i])) return false;
    return true;
  }

  // One number, one for every output, groups of inputs, or blocks.
  void take_scales(CodedRowsOf& m, bool of_bytes) const {
    const ShardTensor& t = require("weight_scale");
    const std::int64_t n = count(t),
                       high = config_.blocks.rows ? (m.out + config_.blocks.rows - 1) / config_.blocks.rows : 0;
    const std::int64_t broad = config_.blocks.rows ? (m.in + config_.blocks.columns - 1) / config_.blocks.columns : 0;
    if (t.shape.size() > 2) fail(t.name, "has more than 2 dimensions");
    m.scales = numbers(t, of_bytes);
    if (high > 0 && t.shape == std::vector{high, broad}) {
      m.block_rows = config_.blocks.rows;
      m.group = config_.blocks.columns;
      m.wide = broad;
    } else if (n == 1) {
      m.block_rows = m.out;
      m.group = m.in;
    } else {
      m.wide = n / m.out;
      if (t.shape.empty() || t.shape[0] != m.out || m.wide < 1 || m.in % m.wide != 0)
        fail(t.name,
             fmt::format("has {} numbers, expected 1, or the same number for each of {} outputs that divides {} inputs",
                         n, m.out, m.in));
      m.group = m.in / m.wide;
    }
    for (std::int64_t i = 0; i < n; ++i)
      if (!std::isfinite(m.scales[i])) fail(t.name, fmt::format("[{}] is not a finite number", i));
    m.pieces.push_back(t.bytes);
  }

  TensorInfo tensor(const CodedRowsOf& m, const char* quant, std::shared_ptr<const RowSource> source,
                    std::span<const std::byte> bytes) const {
    TensorInfo t;
    t.quant = quant;
    t.rank = 2;
    t.shape = {m.in, m.out, 1, 1};
    t.bytes = bytes;
    t.source = std::move(source);
    return t;
  }

  CodedMatrix read_integers(CodedRowsOf m, std::span<const std::byte> bytes) const {
    const bool in_blocks = m.in % kCodedBlock == 0 && m.group % kCodedBlock == 0 && !m.group_of;
    const std::int64_t n = (m.out + m.block_rows - 1) / m.block_rows * m.wide;
    if (in_blocks && (m.bits < 8 || !m.zeros) && all_halves(m.scales, n))
      return {tensor(m, "q8_0", std::make_shared<AsQ8>(m), bytes)};
    if (m.bits == 8 && !m.group_of && m.in % kAffineBlock == 0 && m.group % kAffineBlock == 0 && all_short(m.scales, n))
      return {tensor(m, "affine8", std::make_shared<AsAffine>(m), bytes)};
    return {tensor(m, "f32", std::make_shared<AsFloats>(m), bytes)};
  }

  CodedMatrix read_bytes(const ShardTensor& weight) const {
    CodedRowsOf m{
        .in = weight.shape[1], .out = weight.shape[0], .codes = weight.bytes.data(), .row_bytes = weight.shape[1]};
    for (int c = 0; c < 256; ++c)
      m.levels[static_cast<std::size_t>(c)] = static_cast<float>(static_cast<std::int8_t>(c));
    m.pieces = {weight.bytes};
    take_scales(m, false);
    if (const ShardTensor* zeros = find("weight_zero_point")) {
      if (zeros->dtype != "I8" || zeros->shape != require("weight_scale").shape)
        fail(zeros->name, "is no I8 with the shape of the scales");
      m.zeros = zeros->bytes.data();
      m.pieces.push_back(zeros->bytes);
    }
    return read_integers(std::move(m), weight.bytes);
  }

  // Words that `n` codes take; 0: such codes do not occur.
  static std::int64_t words(Layout layout, int bits, std::int64_t n) {
    return layout == Layout::kWords ? (n + 32 / bits - 1) / (32 / bits) : (n * bits + 31) / 32;
  }

  CodedMatrix read_packed(const ShardTensor& packed) const {
    matrix("weight_packed", 2);
    if (packed.dtype != "I32") fail(packed.name, fmt::format("is {}, expected I32 or U8", packed.dtype));
    const ShardTensor& shape = matrix("weight_shape", 1);
    if (shape.dtype != "I64" || shape.shape[0] != 2) fail(shape.name, "expected two I64: outputs and inputs");
    std::int64_t sizes[2];
    std::memcpy(sizes, shape.bytes.data(), sizeof sizes);
    CodedRowsOf m{
        .in = sizes[1], .out = packed.shape[0], .codes = packed.bytes.data(), .row_bytes = 4 * packed.shape[1]};
    if (sizes[0] != m.out || m.in < 1 || m.in > 16 * packed.shape[1])
      fail(shape.name, fmt::format("says {}x{} of {}x{} words", sizes[0], sizes[1], m.out, packed.shape[1]));
    std::vector<std::pair<int, Layout>> fitting;  // layouts of 2, 4 and 8 bits are one
    for (const int bits : config_.bits)
      for (const Layout layout : {Layout::kStream, Layout::kWords})
        if (words(layout, bits, m.in) == packed.shape[1] && (layout == Layout::kStream || 32 % bits != 0))
          fitting.emplace_back(bits, layout);
    if (fitting.size() != 1)
      fail(packed.name, fmt::format("has {} words for {} codes, which are of {} of the 'num_bits' in the configuration",
                                    packed.shape[1], m.in, fitting.empty() ? "none" : "several"));
    std::tie(m.bits, m.layout) = fitting.front();
    for (int c = 0; c < 1 << m.bits; ++c)
      m.levels[static_cast<std::size_t>(c)] = static_cast<float>(c - (1 << (m.bits - 1)));
    m.pieces = {packed.bytes};
    take_scales(m, false);
    if (m.bits == 4 && m.in % kCodedBlock == 0 && m.group % kCodedBlock == 0 && m.block_rows == 1 &&
        all_halves(m.scales, m.out * m.wide))
      return {int4_matrix({Int4Method::kCompressed, m.wide == 1 ? 0 : m.group, false}, parts_, stem_, path_)};
    if (const ShardTensor* zeros = find("weight_zero_point")) {
      if (zeros->dtype != "I32" || zeros->shape != std::vector{words(m.layout, m.bits, m.out), m.wide})
        fail(zeros->name, fmt::format("expected {}x{} words of I32", words(m.layout, m.bits, m.out), m.wide));
      m.zeros = zeros->bytes.data();
      m.pieces.push_back(zeros->bytes);
    }
    if (const ShardTensor* groups = find("weight_g_idx")) take_order(m, *groups);
    return read_integers(std::move(m), packed.bytes);
  }

  void take_order(CodedRowsOf& m, const ShardTensor& t) const {
    if (t.dtype != "I32" || t.shape != std::vector{m.in}) fail(t.name, fmt::format("expected {} of I32", m.in));
    for (std::int64_t i = 0; i < m.in; ++i) {
      std::int32_t g;
      std::memcpy(&g, t.bytes.data() + 4 * i, 4);
      if (g < 0 || g >= m.wide) fail(t.name, fmt::format("[{}] is {}, expected 0..{}", i, g, m.wide - 1));
    }
    m.group_of = t.bytes.data();
    m.pieces.push_back(t.bytes);
  }

  CodedMatrix read_f8(const ShardTensor& weight) const {
    CodedRowsOf m{
        .in = weight.shape[1], .out = weight.shape[0], .codes = weight.bytes.data(), .row_bytes = weight.shape[1]};
    for (int c = 0; c < 256; ++c)
      m.levels[static_cast<std::size_t>(c)] = f8_value(c, weight.dtype == "F8_E4M3" ? 4 : 5);
    m.pieces = {weight.bytes};
    take_scales(m, true);
    return of_f8(std::move(m), weight.dtype == "F8_E4M3", weight.bytes);
  }
  // bf16 has the digits of a float of 8 bits, and its exponents.
  CodedMatrix of_f8(CodedRowsOf m, bool e4m3, std::span<const std::byte> bytes) const {
    if (e4m3 && m.in % kF8Block == 0 && m.group % kF8Block == 0)
      return {tensor(m, "f8_e4m3", std::make_shared<AsF8>(m), bytes)};
    if (m.scales.type == CodedNumbers::Type::kExponent) return {tensor(m, "bf16", std::make_shared<AsBf16>(m), bytes)};
    return {tensor(m, "f32", std::make_shared<AsFloats>(m), bytes)};
  }

  // Bytes of two codes: `out` rows of `in` elements.
  CodedMatrix read_floats_of_four(const ShardTensor& packed) const {
    matrix("weight_packed", 2);
    const ShardTensor& scales = matrix("weight_scale", 2);
    const std::int64_t in = 2 * packed.shape[1], out = packed.shape[0];
    if (scales.dtype == "U8") return of_mxfp4(packed, scales, in, {out});
    if (scales.dtype != "F8_E4M3") fail(scales.name, fmt::format("is {}, expected U8 or F8_E4M3", scales.dtype));
    const ShardTensor& global = require("weight_global_scale");
    if (count(global) != 1) fail(global.name, "expected one number");
    const float divisor = numbers(global, false)[0];
    if (!std::isfinite(divisor) || divisor == 0.0f) fail(global.name, "is not a finite number other than 0");
    return of_nvfp4(packed, scales, in, out, divisor);
  }

  CodedMatrix of_mxfp4(const ShardTensor& packed, const ShardTensor& scales, std::int64_t in,
                       std::vector<std::int64_t> rows) const {
    if (in % kCodedBlock != 0) fail(packed.name, fmt::format("is for {} inputs, expected a multiple of 32", in));
    ShardTensor blocks = packed, exponents = scales;
    blocks.dtype = exponents.dtype = "U8";
    rows.push_back(in / kCodedBlock);
    blocks.shape = rows;
    blocks.shape.push_back(16);
    if (exponents.shape != rows) fail(scales.name, fmt::format("is not one number for 32 of {} inputs", in));
    return {mxfp4_matrices(blocks, exponents, path_)};
  }

  CodedMatrix of_nvfp4(const ShardTensor& packed, const ShardTensor& scales, std::int64_t in, std::int64_t out,
                       float divisor) const {
    CodedRowsOf m{
        .in = in, .out = out, .layout = Layout::kStream, .bits = 4, .codes = packed.bytes.data(), .row_bytes = in / 2};
    std::copy(kFourBits.begin(), kFourBits.end(), m.levels.begin());
    m.scales = {scales.bytes.data(), CodedNumbers::Type::kF8};
    m.group = kNvGroup;
    m.wide = in / kNvGroup;
    m.divisor = divisor;
    m.pieces = {packed.bytes, scales.bytes};
    if (in % kNvGroup != 0 || count(scales) != out * m.wide)
      fail(scales.name,
           fmt::format("has {} numbers, expected one for 16 of {} inputs and {} outputs", count(scales), in, out));
    // 127 stands for no number, and the weight type has no sign.
    const bool plain =
        std::all_of(scales.bytes.begin(), scales.bytes.end(), [](std::byte b) { return b < std::byte{127}; });
    const float factor = 1.0f / divisor;
    if (plain && in % kNvBlock == 0 && (divisor == 1 || (factors_ && std::isfinite(factor) && factor != 0)))
      return {tensor(m, "nvfp4", std::make_shared<AsNvfp4>(m), packed.bytes), factor};
    return {tensor(m, "f32", std::make_shared<AsFloats>(m), packed.bytes)};
  }

  CodedMatrix read_mlx() const {
    const auto own = config_.other.find(stem_);
    const MlxCodes& codes = own == config_.other.end() ? config_.codes : own->second;
    const ShardTensor& weight = require("weight");
    const std::size_t rank = weight.shape.size();
    if (weight.dtype != "U32" || rank < 2 || rank > 3) fail(weight.name, "expected U32 of 2 or 3 dimensions");
    const ShardTensor& scales = matrix("scales", rank);
    const std::int64_t in = codes.group * scales.shape.back(), bits = codes.mode == "affine"  ? codes.bits
                                                                      : codes.mode == "mxfp8" ? 8
                                                                                              : 4;
    std::vector<std::int64_t> rows(weight.shape.begin(), weight.shape.end() - 1);
    if (!std::equal(rows.begin(), rows.end(), scales.shape.begin()) || in * bits != 32 * weight.shape.back())
      fail(weight.name, fmt::format("does not fit its scales in groups of {} with {} bits", codes.group, bits));
    const std::int64_t out = rank == 3 ? rows[0] * rows[1] : rows[0];
    CodedMatrix made = codes.mode == "affine" ? read_affine(weight, scales, in, out, codes)
                                              : scales.dtype != "U8"
                           ? fail(scales.name, "expected U8"),
                CodedMatrix{}
    : codes.mode == "mxfp4" ? of_mxfp4(weight, scales, in, rows)
  : codes.mode == "nvfp4"   ? of_nvfp4(weight, scales, in, out, 1)
                            : read_mlx_f8(weight, scales, in, out, codes.group);
    made.info.shape = {in, rows.back(), rank == 3 ? rows[0] : 1, 1};
    made.info.rank = static_cast<int>(rank);
    return made;
  }

  CodedMatrix read_mlx_f8(const ShardTensor& weight, const ShardTensor& scales, std::int64_t in, std::int64_t out,
                          std::int64_t group) const {
    CodedRowsOf m{.in = in, .out = out, .codes = weight.bytes.data(), .row_bytes = in};
    for (int c = 0; c < 256; ++c) m.levels[static_cast<std::size_t>(c)] = f8_value(c, 4);
    m.scales = {scales.bytes.data(), CodedNumbers::Type::kExponent};
    m.group = group;
    m.wide = in / group;
    m.pieces = {weight.bytes, scales.bytes};
    return of_f8(std::move(m), true, weight.bytes);
  }

  CodedMatrix read_affine(const ShardTensor& weight, const ShardTensor& scales, std::int64_t in, std::int64_t out,
                          const MlxCodes& codes) const {
    const ShardTensor& biases = require("biases");
    if (biases.shape != scales.shape) fail(biases.name, "has not the shape of the scales");
    CodedRowsOf m{.in = in,
                  .out = out,
                  .layout = Layout::kStream,
                  .bits = codes.bits,
                  .codes = weight.bytes.data(),
                  .row_bytes = 4 * weight.shape.back()};
    for (int c = 0; c < 256; ++c) m.levels[static_cast<std::size_t>(c)] = static_cast<float>(c);
    m.scales = numbers(scales, false);
    m.biases = numbers(biases, false);
    m.group = codes.group;
    m.wide = in / codes.group;
    m.pieces = {weight.bytes, scales.bytes, biases.bytes};
    const bool in_blocks = in % kCodedBlock == 0 && codes.group % kCodedBlock == 0;
    const std::int64_t n = out * m.wide;
    if (in_blocks && codes.bits <= 5 && all_halves(m.scales, n) && all_halves(m.biases, n))
      return {tensor(m, codes.bits == 5 ? "q5_1" : "q4_1", std::make_shared<AsNibbles>(m), weight.bytes)};
    const bool in_blocks_of_64 = in % kAffineBlock == 0 && codes.group % kAffineBlock == 0;
    if (in_blocks_of_64 && (codes.bits == 6 || codes.bits == 8) && all_short(m.scales, n))
      return {tensor(m, codes.bits == 6 ? "affine6" : "affine8", std::make_shared<AsAffine>(m), weight.bytes)};
    return {tensor(m, "f32", std::make_shared<AsFloats>(m), weight.bytes)};
  }

  const CodedConfig& config_;
  const std::map<std::string, ShardTensor>& parts_;
  const std::string& stem_;
  const bool factors_;
  const std::string& path_;
};

}  // namespace

std::optional<CodedPart> coded_part(const ShardTensor& t, const CodedConfig& config) {
  constexpr std::string_view kMlx[] = {"scales", "biases"};
  // What activations would be rounded with is collected and not read.
  constexpr std::string_view kCompressed[] = {"weight_packed",      "weight_scale", "weight_zero_point",
                                              "weight_shape",       "weight_g_idx", "weight_global_scale",
                                              "input_global_scale", "input_scale",  "input_zero_point"};
  const std::size_t dot = t.name.rfind('.');
  if (dot == t.name.npos) return std::nullopt;
  CodedPart p{t.name.substr(0, dot), t.name.substr(dot + 1)};
  const auto is_one = [&](std::span<const std::string_view> of) {
    return std::find(of.begin(), of.end(), p.part) != of.end();
  };
  const bool codes = p.part == "weight" && (config.mlx ? t.dtype == "U32" : t.dtype == "I8" || is_f8(t.dtype));
  if (codes || (config.mlx ? is_one(kMlx) : is_one(kCompressed))) return p;
  return std::nullopt;
}

CodedMatrix coded_matrix(const CodedConfig& config, const std::map<std::string, ShardTensor>& parts,
                         const std::string& stem, bool factors, const std::string& path) {
  return CodedReader(config, parts, stem, factors, path).read();
}

}  // namespace kvasir::weights
