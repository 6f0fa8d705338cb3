// Weights that are rounded while they are loaded: the bits that their types give.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "model/hparams.hpp"
#include "model/synth.hpp"
#include "weights/mixes.hpp"
#include "weights/quant.hpp"
#include "weights/rounded_file.hpp"

namespace kvasir::run {
namespace {

using testing::kShipped;
using testing::logits_of;
using testing::TemporaryPath;

// The folder's matrices as floats that were rounded to the types of a mixture.
std::vector<testing::FolderTensor> rounded_here(const weights::ModelFile& model, const testing::FolderStyle& style,
                                                const std::string& mix) {
  const weights::MixPlan plan(weights::find_mix(mix), model, false);
  std::vector<testing::FolderTensor> all = testing::folder_tensors(model, style);
  for (testing::FolderTensor& t : all)
    for (const weights::TensorInfo& info : model.tensors()) {
      if (info.rank != 2 || testing::folder_name(style, info.name) != t.name) continue;
      const std::string type = plan.type_of(info);
      if (type == info.quant) continue;
      const weights::Quant &from = *find(weights::quants(), info.quant), &to = *find(weights::quants(), type);
      const std::int64_t n = info.columns(), read = static_cast<std::int64_t>(t.bytes.size()) / info.rows();
      std::vector<float> x(static_cast<std::size_t>(n));
      std::vector<std::byte> row(static_cast<std::size_t>(n / to.block * to.block_bytes));
      std::string bytes;
      for (std::int64_t r = 0; r < info.rows(); ++r) {
        from.dequantise(reinterpret_cast<const std::byte*>(t.bytes.data()) + r * read, x.data(), n);
        to.quantise(x.data(), row.data(), n);
        to.dequantise(row.data(), x.data(), n);
        bytes.append(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
      }
      t.dtype = "F32";
      t.bytes = bytes;
    }
  return all;
}

// A GGUF file and a folder, whose rows lie elsewhere; a mixture of several types that falls back for short rows.
TEST(RoundedWeights, AreThoseThatTheirTypeRoundsTo) {
  const std::string file = kShipped + "smollm3.gguf";
  const auto model = weights::open_model_file(file);
  const testing::FolderStyle style{"smollm3", true};
  testing::PlainJson config = testing::folder_config(*model, style);
  config["no_rope_layers"] = {1, 1, 1, 0};
  TemporaryPath folder("folder");
  testing::write_folder(folder.path, config, testing::folder_tensors(*model, style));
  for (const char* type : {"q8_0", "q4_0", "q4_k", "bf16", "Q5_1"}) {
    TemporaryPath floats("floats");
    testing::write_folder(floats.path, config,
                          rounded_here(*model, style, std::string(type) == "q4_k" ? "Q4_K_M" : type));
    const std::vector<float> want = logits_of(floats.path, true);
    EXPECT_EQ(logits_of(file, true, type), want) << type;
    EXPECT_EQ(logits_of(folder.path, true, type), want) << type;
    EXPECT_EQ(logits_of(file, false, type), logits_of(folder.path, false, type)) << type;
  }
}

TEST(RoundedWeights, TakeTheMemoryOfTheirType) {
  const auto plain = weights::open_model_file(kShipped + "llama.gguf");
  const auto rounded = weights::rounded(weights::open_model_file(kShipped + "llama.gguf"), "q8_0");
  const model::ModelSpec spec = model::read_spec(*plain);
  EXPECT_LT(model::Model::planned_bytes(spec, *rounded, false),
            model::Model::planned_bytes(spec, *plain, false) * 6 / 10);
  EXPECT_EQ(rounded->find("blk.0.ffn_up.weight")->quant, "q8_0");
  EXPECT_EQ(rounded->find("token_embd.weight")->quant, "f16");  // a table, rows of which are looked up
  EXPECT_EQ(rounded->find("blk.0.attn_norm.weight")->quant, "f32");
  EXPECT_EQ(rounded->find("no such tensor"), nullptr);
}

// All golden models take it, or say why not.
TEST(RoundedWeights, OfEveryArchitecture) {
  int taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kShipped)) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename());
    const std::vector<float> got = logits_of(entry.path(), false, "q8_0"), want = logits_of(entry.path(), false);
    ASSERT_EQ(got.size(), want.size());
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / norm), 0.5);  // small random models: a router's choice may change
    ++taken;
  }
  EXPECT_GT(taken, 30);
}

TEST(RoundedWeights, WrongTypesAreNamed) {
  TemporaryPath file("floats.gguf");  // rows of 256, which every type takes
  Team team(2);
  model::write_synthetic_model(file.path, model::find_synth_shape("tiny"), "f16", 1, team, [](auto, auto) {});
  const auto message = [&](const char* type) -> std::string {
    try {
      weights::rounded(weights::open_model_file(file.path), type);
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  EXPECT_NE(message("q9_0").find("q9_0"), std::string::npos);
  EXPECT_NE(message("iq2_xxs").find("importance"), std::string::npos);
  EXPECT_EQ(message("IQ4_XS"), "taken");
}

}  // namespace
}  // namespace kvasir::run
