// Folders with 8-bit floats: the bits of a folder with the same weights as floats where they stay as they are or
// compressed-tensors has scales, else in f16, and clear words for what does not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.hpp"
#include "folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "simd/half.hpp"
#include "weights/quant.hpp"
#include "weights/safetensors/f8_rows.hpp"

namespace kvasir::run {
namespace folder_f8_test {

using testing::FolderStyle;
using testing::FolderTensor;
using testing::kShipped;
using testing::logits_of;
using testing::PlainJson;
using testing::TemporaryPath;

// By way of f16: E5M2 is its upper byte, E4M3 has the exponent's bias 8 lower.
float by_half(int code, bool e5) {
  if (e5) return simd::f16_to_f32(static_cast<std::uint16_t>(code << 8));
  const float size = simd::f16_to_f32(static_cast<std::uint16_t>((code & 127) << 7)) * 256.0f;
  return code & 128 ? -size : size;
}

enum class Scales { kNone, kMatrix, kOutputs, kBlocks, kBlocksOf64 };

struct Case {
  bool e5;
  Scales scales;
  bool bf16;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.e5 << static_cast<int>(c.scales) << c.bf16; }

constexpr int kRows = 24, kColumns = 40;  // of a block: they divide nothing

bool in_blocks(Scales scales) { return scales == Scales::kBlocks || scales == Scales::kBlocksOf64; }
std::int64_t block_columns(Scales scales) { return scales == Scales::kBlocks ? kColumns : 64; }

PlainJson config_of(Scales scales) {
  if (in_blocks(scales))
    return {{"quant_method", "fp8"},
            {"weight_block_size", {kRows, block_columns(scales)}},
            {"activation_scheme", "dynamic"}};
  return {{"quant_method", "compressed-tensors"}, {"format", "float-quantized"}};
}

struct Folders {
  PlainJson config;
  std::vector<FolderTensor> halves, f8;
};

Folders folders_of(const Case& c) {
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  const FolderStyle style{"llama", true};
  std::mt19937 random(7);
  Folders f{testing::folder_config(*model, style), {}, {}};
  for (FolderTensor& t : testing::folder_tensors(*model, style)) {
    if (t.name.find("_proj.weight") == t.name.npos) {
      f.halves.push_back(t);
      f.f8.push_back(t);
      continue;
    }
    const auto out = t.shape[0], in = t.shape[1];
    const std::int64_t high = in_blocks(c.scales) ? (out + kRows - 1) / kRows : c.scales == Scales::kOutputs ? out : 1;
    const std::int64_t columns = block_columns(c.scales), wide = in_blocks(c.scales) ? (in + columns - 1) / columns : 1;
    const bool as_they_are = !c.e5 && in % 64 == 0 && c.scales != Scales::kBlocks;
    const bool floats = as_they_are || c.scales == Scales::kMatrix || c.scales == Scales::kOutputs;
    std::vector<float> scales;
    std::string scale_bytes, codes, halves;
    for (std::int64_t i = 0; i < high * wide; ++i) {
      const float x = simd::bf16_to_f32(simd::f32_to_bf16(0.02f + 0.0001f * static_cast<float>(random() % 100)));
      const std::uint16_t half = simd::f32_to_bf16(x);
      scales.push_back(c.scales == Scales::kNone ? 1.0f : x);
      scale_bytes.append(c.bf16 ? reinterpret_cast<const char*>(&half) : reinterpret_cast<const char*>(&x),
                         c.bf16 ? 2 : 4);
    }
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) {
        // About 1/32 to 2, and a zero and a denormal now and then.
        const int low = c.e5 ? 10 << 2 : 2 << 3, span = c.e5 ? 6 << 2 : 6 << 3;
        int code = low + static_cast<int>(random() % static_cast<unsigned>(span));
        if (random() % 50 == 0) code = static_cast<int>(random() % 3);
        code |= random() % 2 ? 128 : 0;
        const std::int64_t at = in_blocks(c.scales)            ? o / kRows * wide + i / columns
                                : c.scales == Scales::kOutputs ? o
                                                               : 0;
        const float x = by_half(code, c.e5) * scales[static_cast<std::size_t>(at)];
        const std::uint16_t half = simd::f32_to_f16(x);
        codes += static_cast<char>(code);
        halves.append(floats ? reinterpret_cast<const char*>(&x) : reinterpret_cast<const char*>(&half),
                      floats ? 4 : 2);
      }
    f.halves.push_back({t.name, floats ? "F32" : "F16", t.shape, halves});
    f.f8.push_back({t.name, c.e5 ? "F8_E5M2" : "F8_E4M3", t.shape, codes});
    if (c.scales == Scales::kNone) continue;
    const std::string name = t.name + (in_blocks(c.scales) ? "_scale_inv" : "_scale");
    f.f8.push_back({name, c.bf16 ? "BF16" : "F32", {high, wide}, scale_bytes});
  }
  return f;
}

class F8Folders : public ::testing::TestWithParam<Case> {};

TEST_P(F8Folders, SameBitsAsHalvesOrFloats) {
  const Folders f = folders_of(GetParam());
  TemporaryPath halves("halves"), f8("f8");
  testing::write_folder(halves.path, f.config, f.halves);
  PlainJson config = f.config;
  if (GetParam().scales != Scales::kNone) config["quantization_config"] = config_of(GetParam().scales);
  testing::write_folder(f8.path, config, f.f8, true);
  for (const bool exact : {true, false}) EXPECT_EQ(logits_of(f8.path, exact), logits_of(halves.path, exact)) << exact;
}
INSTANTIATE_TEST_SUITE_P(All, F8Folders,
                         ::testing::Values(Case{false, Scales::kNone, false}, Case{true, Scales::kNone, false},
                                           Case{false, Scales::kMatrix, false}, Case{false, Scales::kOutputs, true},
                                           Case{false, Scales::kBlocks, false}, Case{true, Scales::kBlocks, true},
                                           Case{false, Scales::kBlocksOf64, true},
                                           Case{true, Scales::kBlocksOf64, false}));

// Eight bits and a scale for 64 in memory; one code of a block that stands for no number makes the block NaN.
TEST(F8Folders, MatricesOfWholeBlocksStayEightBits) {
  std::string codes;
  for (int i = 0; i < 64 * 6; ++i) codes += static_cast<char>(i % 127 | (i & 128));
  codes[64 * 5 + 9] = static_cast<char>(255);
  const float scale = 0.37f;
  const weights::ShardTensor t{"x.weight", "F8_E4M3", {3, 128}, std::as_bytes(std::span(codes))};
  const weights::ShardTensor s{"x.weight_scale", "F32", {1}, std::as_bytes(std::span(&scale, 1))};
  const weights::TensorInfo info = weights::f8_matrix(t, &s, {}, "file");
  ASSERT_EQ(info.quant, "f8_e4m3");
  std::vector<std::byte> room;
  std::vector<float> row(128);
  for (std::int64_t r = 0; r < 3; ++r) {
    find(weights::quants(), info.quant)->dequantise(info.row(r, room), row.data(), 128);
    for (std::int64_t i = 0; i < 128; ++i) {
      const float got = row[static_cast<std::size_t>(i)];
      if (r == 2 && i >= 64) {
        EXPECT_TRUE(std::isnan(got)) << i;
      } else {
        EXPECT_EQ(got, by_half(static_cast<std::uint8_t>(codes[static_cast<std::size_t>(128 * r + i)]), false) * scale);
      }
    }
  }
}

// Rounded further while they are loaded: what the same halves or floats are rounded to.
TEST(F8Folders, AreRoundedFurther) {
  for (const Scales scales : {Scales::kBlocks, Scales::kBlocksOf64}) {
    const Folders f = folders_of({false, scales, false});
    TemporaryPath halves("halves"), f8("f8");
    testing::write_folder(halves.path, f.config, f.halves);
    PlainJson config = f.config;
    config["quantization_config"] = config_of(scales);
    testing::write_folder(f8.path, config, f.f8);
    const std::vector<float> got = logits_of(f8.path, false, "q8_0");
    EXPECT_EQ(got, logits_of(halves.path, false, "q8_0"));
    EXPECT_NE(got, logits_of(halves.path, false));
  }
}

TEST(F8Folders, EveryCodeIsItsValue) {
  for (const bool e5 : {false, true}) {
    std::string codes;
    for (int i = 0; i < 256; ++i) codes += static_cast<char>(i);
    const weights::ShardTensor t{"x.weight", e5 ? "F8_E5M2" : "F8_E4M3", {8, 32}, std::as_bytes(std::span(codes))};
    const weights::TensorInfo info = weights::f8_matrix(t, nullptr, {}, "file");
    std::vector<std::byte> room;
    for (int i = 0; i < 256; ++i) {
      std::uint16_t half;
      std::memcpy(&half, info.row(i / 32, room) + 2 * (i % 32), 2);
      const float got = simd::f16_to_f32(half);
      const float want = by_half(i, e5);
      const bool no_number = std::isnan(want) || (!e5 && (i & 127) == 127);
      if (no_number) {
        EXPECT_TRUE(std::isnan(got)) << i;
      } else if (std::isfinite(want)) {
        EXPECT_EQ(got, want) << i << e5;
      }
    }
  }
}

TEST(F8Folders, WhatDoesNotFitIsNamed) {
  const Folders f = folders_of({false, Scales::kBlocks, false});
  const auto words_of = [&](const PlainJson& quantised, auto change) -> std::string {
    PlainJson config = f.config;
    config["quantization_config"] = quantised;
    std::vector<FolderTensor> tensors = f.f8;
    for (FolderTensor& t : tensors)
      if (t.name.find("layers.0.mlp.up_proj.weight_scale_inv") != t.name.npos) change(t);
    TemporaryPath folder("folder");
    testing::write_folder(folder.path, config, tensors);
    try {
      weights::open_model_file(folder.path);
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  const PlainJson good = config_of(Scales::kBlocks);
  EXPECT_EQ(words_of(good, [](FolderTensor&) {}), "taken");
  EXPECT_NE(words_of(good,
                     [](FolderTensor& t) {
                       t.shape = {t.shape[1], t.shape[0]};
                     })
                .find("up_proj.weight_scale_inv"),
            std::string::npos);
  EXPECT_NE(words_of(good, [](FolderTensor& t) { t.dtype = "I32"; }).find("expected F32 or BF16"), std::string::npos);
  EXPECT_NE(words_of(good, [](FolderTensor& t) { t.name = "model.layers.0.mlp.no_proj.weight_scale_inv"; })
                .find("of no matrix"),
            std::string::npos);
  EXPECT_NE(words_of({{"quant_method", "fp8"}}, [](FolderTensor&) {}).find("weight_block_size"), std::string::npos);
  EXPECT_NE(words_of({{"quant_method", "fp8"}, {"weight_block_size", {0, 128}}}, [](FolderTensor&) {})
                .find("weight_block_size"),
            std::string::npos);
}

}  // namespace folder_f8_test
}  // namespace kvasir::run
