// Folders of compressed-tensors and MLX, packed here by a second implementation: the bits of a folder with the same
// weights as floats, the weight types that are taken, and clear words for what does not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "base/error.hpp"
#include "folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "simd/half.hpp"

namespace kvasir::run {
namespace folder_coded_test {

using testing::FolderStyle;
using testing::FolderTensor;
using testing::kShipped;
using testing::logits_of;
using testing::PlainJson;
using testing::TemporaryPath;

enum class Kind { kStream, kWords, kBytes, kF8, kMxfp4, kMxfp8, kNvfp4, kMlxAffine, kMlxMxfp4, kMlxMxfp8, kMlxNvfp4 };

struct Case {
  const char* name;
  Kind kind;
  int bits;
  int group;  // 0: the whole row
  bool zeros;
  const char* scales;  // "F32", "F16", "BF16"
  const char* quant;   // what becomes of it
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

bool is_mlx(const Case& c) { return c.kind >= Kind::kMlxAffine; }

std::string number(float x, const std::string& type) {
  if (type == "F32") return {reinterpret_cast<const char*>(&x), 4};
  const std::uint16_t half = type == "BF16" ? simd::f32_to_bf16(x) : simd::f32_to_f16(x);
  return {reinterpret_cast<const char*>(&half), 2};
}
float rounded(float x, const std::string& type) {
  if (type == "F32") return x;
  return type == "BF16" ? simd::bf16_to_f32(simd::f32_to_bf16(x)) : simd::f16_to_f32(simd::f32_to_f16(x));
}

// Codes as words of 32 bits: a stream of bits, or whole codes in each word.
std::string words(const std::vector<unsigned>& codes, int bits, bool whole) {
  const std::size_t per = 32 / static_cast<std::size_t>(bits);
  const std::size_t count =
      whole ? (codes.size() + per - 1) / per : (codes.size() * static_cast<std::size_t>(bits) + 31) / 32;
  std::vector<std::uint32_t> out(count);
  for (std::size_t i = 0; i < codes.size(); ++i)
    for (int b = 0; b < bits; ++b) {
      const std::size_t bit =
          whole ? i / per * 32 + i % per * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b)
                : i * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
      out[bit / 32] |= (codes[i] >> b & 1u) << (bit % 32);
    }
  return {reinterpret_cast<const char*>(out.data()), 4 * out.size()};
}

float of_four_bits(unsigned code) {
  constexpr float kSizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -kSizes[code & 7] : kSizes[code & 7];
}
// E4M3 by way of f16, whose exponent has a bias that is 8 more.
float of_f8(unsigned code) {
  const float size = simd::f16_to_f32(static_cast<std::uint16_t>((code & 127) << 7)) * 256.0f;
  return code & 128 ? -size : size;
}

struct Made {
  std::string plain;
  std::vector<FolderTensor> parts;
};

Made made_of(const std::string& stem, std::int64_t out, std::int64_t in, const Case& c, std::mt19937& random) {
  const std::int64_t group = c.group == 0 ? in : c.group, groups = in / group;
  const bool integers = c.kind == Kind::kStream || c.kind == Kind::kWords || c.kind == Kind::kBytes;
  const bool exponents =
      c.kind == Kind::kMxfp4 || c.kind == Kind::kMxfp8 || c.kind == Kind::kMlxMxfp4 || c.kind == Kind::kMlxMxfp8;
  const bool of_f8_scales = c.kind == Kind::kNvfp4 || c.kind == Kind::kMlxNvfp4;
  const bool four =
      c.kind == Kind::kMxfp4 || c.kind == Kind::kNvfp4 || c.kind == Kind::kMlxMxfp4 || c.kind == Kind::kMlxNvfp4;
  const float global = c.kind == Kind::kNvfp4 ? 1536.0f : 1.0f;
  const int offset = integers ? 1 << (c.bits - 1) : 0;
  std::vector<float> scales, biases;
  std::vector<int> zeros;
  std::string scale_bytes, bias_bytes, zero_bytes;
  for (std::int64_t i = 0; i < out * groups; ++i) {
    const auto unit = static_cast<float>(random() % 1000) / 1000.0f;
    if (exponents) {
      const unsigned e = (four ? 122u : 118u) + random() % 3;
      scales.push_back(std::ldexp(1.0f, static_cast<int>(e) - 127));
      scale_bytes += static_cast<char>(e);
    } else if (of_f8_scales) {
      const unsigned e = c.kind == Kind::kNvfp4 ? 104 + random() % 16 : 24 + random() % 8;
      scales.push_back(c.kind == Kind::kNvfp4 ? of_f8(e) / global : of_f8(e));
      scale_bytes += static_cast<char>(e);
    } else {
      const float step = (c.kind == Kind::kF8 ? 0.02f : 0.3f / static_cast<float>(1 << (c.bits - 1))) * (0.5f + unit);
      scales.push_back(rounded(is_mlx(c) && i % 3 == 0 ? -step : step, c.scales));
      scale_bytes += number(scales.back(), c.scales);
    }
    biases.push_back(rounded(-scales.back() * static_cast<float>(1 << (c.bits - 1)) * (0.9f + 0.2f * unit), c.scales));
    bias_bytes += number(biases.back(), c.scales);
    zeros.push_back(c.zeros ? static_cast<int>(random() % (1u << c.bits)) - offset : 0);
    zero_bytes += static_cast<char>(zeros.back());
  }
  Made m;
  std::string codes, bytes;
  for (std::int64_t o = 0; o < out; ++o) {
    std::vector<unsigned> row;
    for (std::int64_t i = 0; i < in; ++i) {
      const auto g = static_cast<std::size_t>(o * groups + i / group);
      unsigned code = random() % (1u << c.bits);
      if (!four && !integers && c.kind != Kind::kMlxAffine && (code & 120) >= 112)
        code &= ~64u;  // not too large, no NaN
      row.push_back(code);
      bytes += static_cast<char>(static_cast<int>(code) - offset);
      float x;
      if (integers)
        x = static_cast<float>(static_cast<int>(code) - offset - zeros[g]) * scales[g];
      else if (c.kind == Kind::kMlxAffine)
        x = static_cast<float>(code) * scales[g] + biases[g];
      else
        x = (four ? of_four_bits(code) : of_f8(code)) * scales[g];
      m.plain.append(reinterpret_cast<const char*>(&x), 4);
    }
    codes += words(row, c.bits, c.kind == Kind::kWords);
  }
  const auto wide = static_cast<std::int64_t>(codes.size()) / 4 / out;
  if (is_mlx(c)) {
    m.parts = {{stem + ".weight", "U32", {out, wide}, codes},
               {stem + ".scales", c.kind == Kind::kMlxAffine ? c.scales : "U8", {out, groups}, scale_bytes}};
    if (c.kind == Kind::kMlxAffine) m.parts.push_back({stem + ".biases", c.scales, {out, groups}, bias_bytes});
    return m;
  }
  const std::string scale_type = exponents ? "U8" : of_f8_scales ? "F8_E4M3" : c.scales;
  m.parts.push_back({stem + ".weight_scale", scale_type, {out, groups}, scale_bytes});
  m.parts.push_back({stem + ".input_scale", "F32", {1}, std::string(4, '\0')});
  if (c.kind == Kind::kNvfp4) m.parts.push_back({stem + ".weight_global_scale", "F32", {1}, number(global, "F32")});
  if (four) {
    m.parts.push_back({stem + ".weight_packed", "U8", {out, in / 2}, codes});
  } else if (c.kind == Kind::kStream || c.kind == Kind::kWords) {
    const std::int64_t shape[2] = {out, in};
    m.parts.push_back({stem + ".weight_packed", "I32", {out, wide}, codes});
    m.parts.push_back(
        {stem + ".weight_shape", "I64", {2}, std::string(reinterpret_cast<const char*>(shape), sizeof shape)});
    if (!c.zeros) return m;
    std::vector<std::string> columns;  // words along the outputs
    for (std::int64_t g = 0; g < groups; ++g) {
      std::vector<unsigned> column;
      for (std::int64_t o = 0; o < out; ++o)
        column.push_back(static_cast<unsigned>(zeros[static_cast<std::size_t>(o * groups + g)] + offset));
      columns.push_back(words(column, c.bits, c.kind == Kind::kWords));
    }
    std::string turned;
    for (std::size_t w = 0; w < columns[0].size(); w += 4)
      for (const std::string& column : columns) turned += column.substr(w, 4);
    m.parts.push_back(
        {stem + ".weight_zero_point", "I32", {static_cast<std::int64_t>(columns[0].size()) / 4, groups}, turned});
  } else {
    m.parts.push_back({stem + ".weight", c.kind == Kind::kBytes ? "I8" : "F8_E4M3", {out, in}, bytes});
    if (c.zeros) m.parts.push_back({stem + ".weight_zero_point", "I8", {out, groups}, zero_bytes});
  }
  return m;
}

void configure(const Case& c, PlainJson& config) {
  if (is_mlx(c)) {
    const char* const modes[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};
    config["quantization"] = {{"group_size", c.group},
                              {"bits", c.bits},
                              {"mode", modes[static_cast<int>(c.kind) - static_cast<int>(Kind::kMlxAffine)]}};
    config["quantization_config"] = config["quantization"];
    return;
  }
  const bool integers = c.kind <= Kind::kBytes;
  PlainJson weights{
      {"num_bits", c.bits}, {"type", integers ? "int" : "float"}, {"strategy", c.group ? "group" : "channel"}};
  config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "mixed-precision"},
                                   {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

struct Folders {
  PlainJson config;
  std::vector<FolderTensor> plain, packed;
};

Folders folders_of(const Case& c) {
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  const FolderStyle style{"llama", true};
  std::mt19937 random(11);
  Folders f{testing::folder_config(*model, style), {}, {}};
  for (const FolderTensor& t : testing::folder_tensors(*model, style)) {
    const bool embedding = t.name == "model.embed_tokens.weight";
    const bool in_groups = c.group == 0 || t.shape.back() % c.group == 0;
    if ((t.name.find("_proj.weight") == t.name.npos && !(embedding && is_mlx(c))) || !in_groups) {
      f.plain.push_back(t);
      f.packed.push_back(t);
      continue;
    }
    Made m = made_of(t.name.substr(0, t.name.size() - 7), t.shape[0], t.shape[1], c, random);
    f.plain.push_back({t.name, "F32", t.shape, m.plain});
    for (FolderTensor& part : m.parts) f.packed.push_back(std::move(part));
  }
  configure(c, f.config);
  return f;
}

std::string words_of(const PlainJson& config, const std::vector<FolderTensor>& tensors) {
  TemporaryPath folder("coded");
  testing::write_folder(folder.path, config, tensors);
  try {
    weights::open_model_file(folder.path);
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

const Case kCases[] = {{"Stream2", Kind::kStream, 2, 32, false, "F16", "q8_0"},
                       {"Stream3", Kind::kStream, 3, 32, true, "F16", "q8_0"},
                       {"Stream5", Kind::kStream, 5, 0, true, "BF16", "q8_0"},
                       {"Stream6", Kind::kStream, 6, 32, false, "F32", "f32"},
                       {"Stream7", Kind::kStream, 7, 32, true, "F16", "q8_0"},
                       {"Stream8", Kind::kStream, 8, 32, true, "F16", "f32"},
                       {"Stream4Floats", Kind::kStream, 4, 32, true, "F32", "f32"},
                       {"Stream4Halves", Kind::kStream, 4, 32, true, "F16", "int4_zero"},
                       {"Words3", Kind::kWords, 3, 32, true, "F16", "q8_0"},
                       {"Words5", Kind::kWords, 5, 32, false, "F16", "q8_0"},
                       {"Words6", Kind::kWords, 6, 32, true, "F32", "f32"},
                       {"Words7", Kind::kWords, 7, 0, false, "F16", "q8_0"},
                       {"Bytes8", Kind::kBytes, 8, 0, false, "BF16", "q8_0"},
                       {"Bytes8Zeros", Kind::kBytes, 8, 32, true, "F32", "f32"},
                       {"Floats8", Kind::kF8, 8, 0, false, "BF16", "f8_e4m3"},
                       {"Mxfp4", Kind::kMxfp4, 4, 32, false, "U8", "mxfp4"},
                       {"Mxfp8", Kind::kMxfp8, 8, 32, false, "U8", "bf16"},
                       {"Nvfp4", Kind::kNvfp4, 4, 16, false, "U8", "nvfp4"},
                       {"MlxAffine2", Kind::kMlxAffine, 2, 32, false, "F16", "q4_1"},
                       {"MlxAffine3", Kind::kMlxAffine, 3, 32, false, "BF16", "q4_1"},
                       {"MlxAffine4", Kind::kMlxAffine, 4, 32, false, "F16", "q4_1"},
                       {"MlxAffine5", Kind::kMlxAffine, 5, 32, false, "F16", "q5_1"},
                       {"MlxAffine6", Kind::kMlxAffine, 6, 32, false, "F16", "f32"},
                       {"MlxAffine8", Kind::kMlxAffine, 8, 32, false, "F32", "f32"},
                       {"MlxMxfp4", Kind::kMlxMxfp4, 4, 32, false, "U8", "mxfp4"},
                       {"MlxMxfp8", Kind::kMlxMxfp8, 8, 32, false, "U8", "bf16"},
                       {"MlxNvfp4", Kind::kMlxNvfp4, 4, 16, false, "U8", "nvfp4"},
                       {"Stream8Whole", Kind::kStream, 8, 0, true, "F16", "affine8"},
                       {"Bytes8WholeZeros", Kind::kBytes, 8, 0, true, "BF16", "affine8"},
                       {"MlxAffine6By64", Kind::kMlxAffine, 6, 64, false, "BF16", "affine6"},
                       {"MlxAffine8By64", Kind::kMlxAffine, 8, 64, false, "BF16", "affine8"},
                       {"MlxAffine8Floats", Kind::kMlxAffine, 8, 64, false, "F32", "f32"}};

class CodedFolders : public ::testing::TestWithParam<Case> {};

// The type that attn_q of the first layer got.
std::string expect_numbers_of_floats(const Folders& f) {
  TemporaryPath plain("plain"), packed("packed");
  PlainJson config = f.config;
  config.erase("quantization");
  config.erase("quantization_config");
  testing::write_folder(plain.path, config, f.plain);
  testing::write_folder(packed.path, f.config, f.packed, true);
  const std::vector<float> want = logits_of(plain.path, true), got = logits_of(packed.path, true);
  double error = 0, norm = 0;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / norm), 1e-5);  // a factor of all elements is multiplied last
  EXPECT_GT(norm, 0);
  return weights::open_model_file(packed.path)->find("blk.0.attn_q.weight")->quant;
}

TEST_P(CodedFolders, HasTheNumbersOfFloats) {
  EXPECT_EQ(expect_numbers_of_floats(folders_of(GetParam())), GetParam().quant);
}
INSTANTIATE_TEST_SUITE_P(All, CodedFolders, ::testing::ValuesIn(kCases),
                         [](const auto& i) { return std::string(i.param.name); });

// As mlx_lm.convert writes routers beside other modes.
TEST(CodedFolders, WhatHasNoModeIsAffineWhateverTheOthersAre) {
  const Case& all = kCases[24];
  ASSERT_EQ(all.kind, Kind::kMlxMxfp4);
  const Case own{"", Kind::kMlxAffine, 8, 32, false, "F16", "f32"};
  Folders f = folders_of(all);
  const std::string stem = "model.layers.0.mlp.up_proj";
  const auto weight =
      std::find_if(f.plain.begin(), f.plain.end(), [&](const FolderTensor& t) { return t.name == stem + ".weight"; });
  ASSERT_NE(weight, f.plain.end());
  std::mt19937 random(12);
  Made m = made_of(stem, weight->shape[0], weight->shape[1], own, random);
  weight->bytes = m.plain;
  std::erase_if(f.packed, [&](const FolderTensor& t) { return t.name.starts_with(stem + "."); });
  for (FolderTensor& part : m.parts) f.packed.push_back(std::move(part));
  f.config["quantization"][stem] = {{"group_size", 32}, {"bits", 8}};
  EXPECT_EQ(expect_numbers_of_floats(f), all.quant);
  f.config["quantization"][stem]["bits"] = 4;
  EXPECT_NE(words_of(f.config, f.packed).find(stem), std::string::npos);
}

// Every part taken away, of another type or of another shape.
TEST(CodedFolders, PartsThatDoNotFitAreNamed) {
  for (const Case& c : kCases) {
    const Folders f = folders_of(c);
    ASSERT_EQ(words_of(f.config, f.packed), "taken") << c.name;
    for (std::size_t i = 0; i < f.packed.size(); ++i) {
      const std::string name = f.packed[i].name;
      if (name.find("layers.0.mlp.up_proj.") == name.npos || name.ends_with("input_scale")) continue;
      std::vector<FolderTensor> parts = f.packed;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      if (!name.ends_with("zero_point")) {
        EXPECT_NE(words_of(f.config, parts).find("layers.0.mlp.up_proj."), std::string::npos) << c.name << " " << name;
      }
      parts = f.packed;
      parts[i].shape[0] += 1;
      parts[i].bytes.resize(parts[i].bytes.size() / static_cast<std::size_t>(parts[i].shape[0] - 1) *
                            static_cast<std::size_t>(parts[i].shape[0]));
      EXPECT_NE(words_of(f.config, parts).find("layers.0.mlp.up_proj."), std::string::npos) << c.name << " " << name;
    }
  }
}

TEST(CodedFolders, ConfigurationsThatAreNotComputedAreNamed) {
  const Folders f = folders_of(kCases[0]), mlx = folders_of(kCases[20]);
  const auto with = [](const Folders& of, const std::function<void(PlainJson&)>& change) {
    PlainJson config = of.config;
    change(config);
    return words_of(config, of.packed);
  };
  const auto names = [&](const char* word, const Folders& of, const std::function<void(PlainJson&)>& change) {
    const std::string said = with(of, change);
    EXPECT_NE(said.find(word), std::string::npos) << said;
  };
  names("format", f, [](PlainJson& c) { c["quantization_config"]["format"] = "mxfp6-pack-quantized"; });
  names("transform_config", f, [](PlainJson& c) {
    c["quantization_config"]["transform_config"] = {{"config_groups", {{"R1", {{"type", "hadamard"}}}}}};
  });
  names("sparsity_config", f, [](PlainJson& c) {
    c["quantization_config"]["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  });
  names("num_bits", f,
        [](PlainJson& c) { c["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 9; });
  names("num_bits", f,
        [](PlainJson& c) { c["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 5; });
  names("weights", f, [](PlainJson& c) { c["quantization_config"]["config_groups"]["group_0"]["weights"] = nullptr; });
  names("actorder", f,
        [](PlainJson& c) { c["quantization_config"]["config_groups"]["group_0"]["weights"]["actorder"] = "other"; });
  names("quantization.mode", mlx, [](PlainJson& c) { c["quantization"]["mode"] = "other"; });
  names("quantization.bits", mlx, [](PlainJson& c) { c["quantization"]["bits"] = 7; });
  names("groups of 64", mlx, [](PlainJson& c) { c["quantization"]["group_size"] = 64; });
  // A matrix of its own.
  names("down_proj", mlx, [](PlainJson& c) { c["quantization"]["model.layers.0.mlp.down_proj"] = {{"bits", 8}}; });
}

}  // namespace folder_coded_test
}  // namespace kvasir::run
