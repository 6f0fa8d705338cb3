// Which tensor has which type: by rules that are written out here for one model, and as files have it that llama.cpp
// wrote.
#include "weights/mixes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "base/test_data_fixture.hpp"
#include "weights/gguf.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

// Shapes and keys of a model, without its weights.
class Outline : public ModelFile {
 public:
  Outline(const std::string& arch, int layers, int heads, int kv_heads, int experts = 0, bool tied = false) {
    metadata_.set("general.architecture", arch);
    metadata_.set(arch + ".block_count", std::int64_t{layers});
    metadata_.set(arch + ".attention.head_count", std::int64_t{heads});
    metadata_.set(arch + ".attention.head_count_kv", std::int64_t{kv_heads});
    if (experts > 0) metadata_.set(arch + ".expert_count", std::int64_t{experts});
    add("token_embd.weight", {512, 1000});
    if (!tied) add("output.weight", {512, 1000});
    add("output_norm.weight", {512});
    for (int l = 0; l < layers; ++l) {
      const std::string block = fmt::format("blk.{}.", l);
      add(block + "attn_norm.weight", {512});
      for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) add(block + name + ".weight", {512, 512});
      add(block + "attn_q.bias", {512});
      if (experts > 0) add(block + "ffn_gate_inp.weight", {512, experts});
      for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"})
        if (experts > 0)
          add(block + name + "_exps.weight", {512, 512, experts});
        else
          add(block + name + ".weight", {512, 512});
    }
  }
  const Metadata& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& t : tensors_)
      if (t.name == name) return &t;
    return nullptr;
  }
  void drop(std::span<const std::byte>) const override {}

  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    tensors_.push_back({.name = name, .quant = "f16", .rank = static_cast<int>(shape.size())});
    std::copy(shape.begin(), shape.end(), tensors_.back().shape.begin());
  }

 private:
  Metadata metadata_{"outline.gguf"};
  std::vector<TensorInfo> tensors_;
};

std::string type_in(const Outline& file, const char* mix, const std::string& tensor, bool importance = false) {
  return MixPlan(find_mix(mix), file, importance).type_of(*file.find(tensor));
}

TEST(Mixes, AreNamedInAnyCase) {
  EXPECT_EQ(find_mix("q4_k_m").name, "Q4_K_M");
  EXPECT_EQ(find_mix("Q4_K_M").file_type, 15u);
  try {
    find_mix("Q4_K_X");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("Q4_K_M"), std::string::npos) << e.what();
  }
}

TEST(Mixes, WhatIsNoMatrixStays) {
  const Outline file("llama", 32, 32, 8, 128);
  for (const char* name :
       {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.bias", "blk.0.ffn_gate_inp.weight"})
    for (const Mix& m : mixes()) EXPECT_EQ(type_in(file, m.name.data(), name), "f16") << m.name;
}

TEST(Mixes, OneTypeForAll) {
  const Outline file("llama", 32, 32, 32);
  for (const auto& [mix, type] : {std::pair{"F16", "f16"}, {"BF16", "bf16"}, {"F32", "f32"}, {"Q8_0", "q8_0"}})
    for (const char* name : {"token_embd.weight", "output.weight", "blk.3.attn_v.weight", "blk.3.ffn_down.weight"})
      EXPECT_EQ(type_in(file, mix, name), type);
  EXPECT_EQ(type_in(file, "Q4_0", "blk.3.ffn_down.weight"), "q4_0");
  EXPECT_EQ(type_in(file, "Q4_0", "output.weight"), "q6_k");
  EXPECT_EQ(type_in(file, "Q4_0", "token_embd.weight"), "q4_0");
}

// A type that files can be mostly of is written without being named anywhere.
TEST(Mixes, EveryTypeOfFilesIsWritten) {
  const Outline file("llama", 32, 32, 32);
  for (const Entry<Quant>& entry : quants()) {
    const auto file_type = gguf_file_type(entry.name);
    const auto of = [&](const Mix& m) { return m.quant == entry.name; };
    const auto mix = std::find_if(mixes().begin(), mixes().end(), of);
    ASSERT_EQ(mix != mixes().end(), file_type.has_value()) << entry.name;
  }
  EXPECT_EQ(find_mix("NVFP4").file_type, 39u);
  EXPECT_EQ(type_in(file, "NVFP4", "blk.3.ffn_up.weight"), "nvfp4");
  EXPECT_EQ(type_in(file, "Q2_0", "blk.3.ffn_down.weight"), "q2_0");
  EXPECT_EQ(type_in(file, "Q2_0", "output.weight"), "q6_k");
}

// More bits in the first and the last eighth of the layers and in every third between.
TEST(Mixes, MediumOnesGiveSensitiveLayersMore) {
  const Outline file("llama", 32, 32, 8);
  for (int l = 0; l < 32; ++l) {
    const bool more = l < 4 || l >= 28 || (l - 4) % 3 == 2;
    for (const char* name : {"attn_v", "ffn_down"}) {
      EXPECT_EQ(type_in(file, "Q4_K_M", fmt::format("blk.{}.{}.weight", l, name)), more ? "q6_k" : "q4_k") << l;
      EXPECT_EQ(type_in(file, "Q5_K_M", fmt::format("blk.{}.{}.weight", l, name)), more ? "q6_k" : "q5_k") << l;
    }
    EXPECT_EQ(type_in(file, "Q4_K_M", fmt::format("blk.{}.attn_k.weight", l)), "q4_k");
    EXPECT_EQ(type_in(file, "Q4_K_S", fmt::format("blk.{}.attn_v.weight", l)), l < 4 ? "q5_k" : "q4_k");
    EXPECT_EQ(type_in(file, "Q3_K_M", fmt::format("blk.{}.attn_v.weight", l)), l < 2 ? "q5_k" : "q4_k");
    EXPECT_EQ(type_in(file, "Q3_K_M", fmt::format("blk.{}.ffn_down.weight", l)), l < 2 ? "q5_k" : "q4_k");
    EXPECT_EQ(type_in(file, "IQ4_XS", fmt::format("blk.{}.ffn_down.weight", l)), l < 4 ? "q5_k" : "iq4_xs");
    EXPECT_EQ(type_in(file, "IQ4_XS", fmt::format("blk.{}.ffn_down.weight", l), true), "iq4_xs");
  }
  EXPECT_EQ(type_in(file, "Q2_K", "blk.9.attn_v.weight"), "q4_k");  // four heads read it
  EXPECT_EQ(type_in(file, "Q2_K", "blk.9.attn_output.weight"), "q3_k");
  EXPECT_EQ(type_in(Outline("llama", 32, 32, 32), "Q2_K", "blk.9.attn_v.weight"), "q3_k");
}

TEST(Mixes, ATiedEmbeddingIsTheOutputToo) {
  const Outline file("llama", 4, 4, 4, 0, true);
  EXPECT_EQ(type_in(file, "Q4_K_M", "token_embd.weight"), "q6_k");
  EXPECT_EQ(type_in(file, "Q8_0", "token_embd.weight"), "q8_0");
}

TEST(Mixes, Experts) {
  const Outline eight("llama", 32, 32, 8, 8), many("qwen3moe", 48, 32, 4, 128);
  EXPECT_EQ(type_in(eight, "Q4_K_M", "blk.9.attn_v.weight"), "q8_0");
  EXPECT_EQ(type_in(eight, "Q4_K_M", "blk.9.attn_k.weight"), "q8_0");
  EXPECT_EQ(type_in(eight, "Q4_K_M", "blk.9.attn_output.weight"), "q5_k");
  EXPECT_EQ(type_in(many, "Q4_K_M", "blk.9.attn_k.weight"), "q4_k");
  EXPECT_EQ(type_in(many, "Q4_K_M", "blk.0.ffn_down_exps.weight"), "q6_k");
  EXPECT_EQ(type_in(many, "Q4_K_M", "blk.6.ffn_down_exps.weight"), "q4_k");
  EXPECT_EQ(type_in(many, "MXFP4_MOE", "blk.6.ffn_down_exps.weight"), "mxfp4");
  EXPECT_EQ(type_in(many, "MXFP4_MOE", "blk.6.attn_v.weight"), "q8_0");
}

TEST(Mixes, RowsThatABlockDoesNotDivideFallBack) {
  Outline file("llama", 32, 32, 8);
  file.add("blk.0.odd.weight", {576, 64});
  file.add("blk.0.strange.weight", {40, 64});
  EXPECT_EQ(type_in(file, "Q4_K_M", "blk.0.odd.weight"), "q5_0");
  EXPECT_EQ(type_in(file, "Q5_K_M", "blk.0.odd.weight"), "q5_1");
  EXPECT_EQ(type_in(file, "Q6_K", "blk.0.odd.weight"), "q8_0");
  EXPECT_EQ(type_in(file, "IQ4_XS", "blk.0.odd.weight"), "iq4_nl");
  EXPECT_EQ(type_in(file, "Q4_K_M", "blk.0.strange.weight"), "f16");
}

TEST(Mixes, CoarseTypesWantImportance) {
  const Outline file("llama", 32, 32, 8);
  const auto wants = [&](const char* mix, const char* tensor, const char* type) {
    return MixPlan(find_mix(mix), file, false).needs_importance(*file.find(tensor), type);
  };
  EXPECT_TRUE(wants("IQ2_XS", "blk.9.ffn_up.weight", "iq2_xs"));
  EXPECT_TRUE(wants("Q2_K_S", "blk.9.ffn_up.weight", "q2_k"));
  EXPECT_FALSE(wants("Q2_K", "blk.9.ffn_up.weight", "q2_k"));
  EXPECT_FALSE(wants("IQ2_XS", "token_embd.weight", "iq2_xs"));
}

// Files of a model with two layers that llama.cpp wrote.
TEST(Mixes, AsLlamaCppDoesIt) {
  const std::string golden = fixture::test_data("golden/");
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is not there";
  const auto source = open_model_file(golden + "llama-gqa.gguf");
  int files = 0;
  for (const Mix& mix : mixes()) {
    const std::string path = fmt::format("{}quant/llama-gqa-{}.gguf", golden, mix.name);
    if (!std::filesystem::exists(path)) continue;
    ++files;
    const auto made = open_model_file(path);
    const MixPlan plan(mix, *source, false);
    EXPECT_EQ(made->metadata().require_int("general.file_type", 0, 100), mix.file_type) << mix.name;
    for (const TensorInfo& t : source->tensors())
      EXPECT_EQ(plan.type_of(t), made->find(t.name)->quant) << mix.name << " " << t.name;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace kvasir::weights
