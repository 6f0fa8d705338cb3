// Models whose attention sees what an index chooses: what folders say of it, and what such models refuse.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "expert_choices_fixture.hpp"
#include "golden_folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "model/hparams.hpp"
#include "model/relocation.hpp"
#include "run/engine.hpp"

namespace kvasir::run {
namespace {

using testing::GoldenFolder;
using testing::PlainJson;
using testing::TemporaryPath;

std::vector<float> logits_with(const GoldenFolder& golden, const PlainJson& config) {
  TemporaryPath folder("index-folder");
  testing::write_folder(folder.path, config, golden.tensors);
  return testing::run_choosing(folder.path, golden.ids, true).logits;
}

std::string refusal(const GoldenFolder& golden, const PlainJson& config) {
  try {
    logits_with(golden, config);
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

// As transformers' class reads them.
TEST(FolderIndex, LayersThatShareAChoiceAreSaidInThreeWays) {
  const GoldenFolder golden = testing::golden_folder("glm_moe_dsa");
  const std::vector<float> want = logits_with(golden, golden.config);
  PlainJson plain = golden.config;
  plain.erase("indexer_types");
  PlainJson letters = plain, each = plain;
  letters["index_topk_pattern"] = "FSFS";
  each["index_topk_freq"] = 2;
  each["index_skip_topk_offset"] = 1;
  EXPECT_EQ(logits_with(golden, letters), want);
  EXPECT_EQ(logits_with(golden, each), want);

  letters["index_topk_pattern"] = "FSF";
  EXPECT_NE(refusal(golden, letters).find("expected 4 letters F and S"), std::string::npos) << refusal(golden, letters);
  PlainJson bad = golden.config;
  bad["indexer_types"][1] = "half";
  EXPECT_NE(refusal(golden, bad).find("neither 'full' nor 'shared'"), std::string::npos) << refusal(golden, bad);
  bad = golden.config;
  bad["indexer_types"][0] = "shared";
  EXPECT_NE(refusal(golden, bad).find("leaves the first layer without an index"), std::string::npos)
      << refusal(golden, bad);
  bad = golden.config;
  bad["index_head_dim"] = 12;
  EXPECT_NE(refusal(golden, bad).find("attention.indexer.key_length is no multiple of 8"), std::string::npos)
      << refusal(golden, bad);
  bad["index_head_dim"] = 24;
  EXPECT_NE(refusal(golden, bad).find("indexer.attn_"), std::string::npos) << refusal(golden, bad);
}

// The text is longer than what is chosen, so another number is another answer; one that takes in all of it is dense.
TEST(FolderIndex, ChoosesAsManyAsTheConfigurationSays) {
  const GoldenFolder golden = testing::golden_folder("deepseek_v32");
  PlainJson fewer = golden.config, all = golden.config, more = golden.config;
  fewer["index_topk"] = 15;
  all["index_topk"] = golden.ids.size();
  more["index_topk"] = 2048;
  EXPECT_GT(testing::relative_error(logits_with(golden, fewer), golden.logits), 1e-3);
  EXPECT_GT(testing::relative_error(logits_with(golden, all), golden.logits), 1e-3);
  EXPECT_EQ(logits_with(golden, all), logits_with(golden, more));
}

TEST(FolderIndex, SelectorsAndBlendingAreRefusedByName) {
  const std::string path = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/deepseek32.gguf";
  EngineOptions o;
  o.model = path;
  o.select = "quest";
  o.threads = 1;
  try {
    Engine engine(o, {.sequences = 1, .logits = 1});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("choose the tokens that they read themselves"), std::string::npos) << e.what();
    EXPECT_EQ(e.context(), "--select");
  }
  const auto file = weights::open_model_file(path);
  EXPECT_NE(
      model::why_not_relocated(model::read_spec(*file), true).find("layer 0 reads the tokens that an index chooses"),
      std::string::npos);
}

// A table of n-grams that is a hundred times as long takes no more memory, and its first rows are what they were.
TEST(FolderIndex, RowsOfNgramsStayInTheFile) {
  GoldenFolder golden = testing::golden_folder("qwen4_exp_text");
  const auto planned = [&] {
    TemporaryPath folder("ngrams");
    testing::write_folder(folder.path, golden.config, golden.tensors);
    const auto file = weights::open_model_file(folder.path);
    return model::Model::planned_bytes(model::read_spec(*file), *file, false);
  };
  const std::int64_t before = planned();
  for (testing::FolderTensor& t : golden.tensors)
    if (t.name.find("ngram_embedding.shard_3.") != t.name.npos) {
      const std::string rows = t.bytes;
      for (int i = 0; i < 400; ++i) t.bytes += rows;
      t.shape[0] *= 401;
    }
  EXPECT_EQ(planned(), before);
  EXPECT_LE(testing::relative_error(logits_with(golden, golden.config), golden.logits), 1e-5);
}

}  // namespace
}  // namespace kvasir::run
