// Pictures in prompts, from the command line: rows that are reused over restarts, and never those of another picture.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_fixture.hpp"
#include "tiny_model_fixture.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir {
namespace pictures_test {

using testing::TemporaryPath;
using testing::TinyModel;
using Json = nlohmann::json;

class Pictures : public ::testing::TestWithParam<const char*> {
 protected:
  Pictures() { model_for(GetParam()).write(model_.path); }
  static TinyModel model_for(const std::string& encoder) {
    TinyModel model;
    return encoder.starts_with("qwen") ? model.see(encoder.starts_with("qwen3") ? "qwen3vl" : "qwen2vl") : model;
  }
  static std::string file(const std::string& name) { return vision::golden("pictures/" + name); }

  cli::Result run(const std::vector<std::string>& images, const std::string& prompt, std::vector<std::string> more = {},
                  const std::string& mmproj = {}) const {
    std::vector<std::string> all{"run",           "-m",    model_.path, "-p",         prompt, "-n",           "6",
                                 "--temperature", "0",     "--json",    "--logprobs", "0",    "--ignore-eos", "--kv",
                                 "balanced",      "--ctx", "2048"};
    for (const std::string& image : images) all.insert(all.end(), {"--image", file(image)});
    if (!images.empty()) all.insert(all.end(), {"--mmproj", mmproj.empty() ? vision::golden(GetParam()) : mmproj});
    all.insert(all.end(), more.begin(), more.end());
    return cli::run_captured(all);
  }
  static Json row(const cli::Result& r) {
    EXPECT_EQ(r.status, 0) << r.err;
    return r.status == 0 ? Json::parse(r.out) : Json::object();
  }
  static std::int64_t reused(const Json& row) { return row["receipt"]["reused_tokens"]; }

  const TemporaryPath model_{"pictures.gguf"}, cache_{"pictures-cache"};
};
INSTANTIATE_TEST_SUITE_P(Encoders, Pictures,
                         ::testing::Values("gemma3.gguf", "gemma4uv.gguf", "gemma4v.gguf", "idefics3.gguf", "lfm2.gguf",
                                           "folders/lfm3", "qwen2_5vl_merger.gguf", "qwen3vl_merger.gguf"));

TEST_P(Pictures, AreReusedAfterARestartAndNeverForAnother) {
  if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  const std::vector<std::string> kept{"--cache-dir", cache_.path};
  const std::string question = std::string(200, 'a') + " b c d e f g";
  const Json cold = row(run({"64x64.png"}, question, kept));
  EXPECT_EQ(reused(cold), 0);
  const Json warm = row(run({"64x64.png"}, question, kept));
  EXPECT_GE(reused(warm), cold["prompt_tokens"].get<std::int64_t>() - 1);
  EXPECT_EQ(warm["ids"], cold["ids"]);
  EXPECT_EQ(warm["logprobs"], cold["logprobs"]);
  EXPECT_EQ(row(run({"64x64.png"}, question))["logprobs"], cold["logprobs"]);
  // (Idefics 3 makes squares of it: their mark is longer, and others are not reached.)
  // Another picture of as many rows: only what stands in front of it is known, its mark, which this vocabulary spells
  // in bytes.
  const Json other = row(run({"97x53.png"}, question, kept));
  EXPECT_LE(reused(other), std::string_view(GetParam()) == "idefics3.gguf" ? 40 : 20);
  EXPECT_NE(other["logprobs"], cold["logprobs"]);
  EXPECT_EQ(row(run({"97x53.png"}, question))["logprobs"], other["logprobs"]);
  // Two, and the same two in the other order.
  const Json two = row(run({"64x64.png", "97x53.png"}, question, kept));
  const Json turned = row(run({"97x53.png", "64x64.png"}, question, kept));
  EXPECT_EQ(two["prompt_tokens"], turned["prompt_tokens"]);
  EXPECT_EQ(row(run({"97x53.png", "64x64.png"}, question))["logprobs"], turned["logprobs"]);
}

TEST_P(Pictures, StandWhereThePromptSays) {
  if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  const Json front = row(run({"64x64.png"}, "abc")), marked = row(run({"64x64.png"}, "<image>abc"));
  EXPECT_EQ(front["logprobs"], marked["logprobs"]);
  EXPECT_NE(row(run({"64x64.png"}, "ab<image>c"))["logprobs"], front["logprobs"]);
  EXPECT_NE(run({"64x64.png"}, "a<image>b<image>").err.find("1 pictures, and the prompt says <image> at 2 places"),
            std::string::npos);
}

TEST_P(Pictures, WhatIsWrongIsNamed) {
  const auto error = [&](const cli::Result& r) { return r.status == 0 ? "accepted" : r.err; };
  EXPECT_NE(error(run({"none.png"}, "x")).find("none.png"), std::string::npos);
  EXPECT_NE(error(run({"64x64.png"}, "x", {}, model_.path)).find(model_.path), std::string::npos);
  const std::string books = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  const std::string wide = error(cli::run_captured(std::vector<std::string>{
      "run", "-m", books, "-p", "x", "--image", file("64x64.png"), "--mmproj", vision::golden(GetParam())}));
  EXPECT_NE(wide.find("gives rows of 32 numbers, expected the model's 256: it belongs to another model"),
            std::string::npos)
      << wide;
  EXPECT_NE(error(cli::run_captured(std::vector<std::string>{"run", "-m", books, "-p", "x", "--image", "x.png"}))
                .find("needs --mmproj FILE"),
            std::string::npos);
}

TEST(PicturesOfOtherModels, AreRefusedByWhatTheirRowsAre) {
  if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  const auto error = [&](const TinyModel& model, const char* mmproj) {
    const TemporaryPath path("other.gguf");
    model.write(path.path);
    const cli::Result r = cli::run_captured(std::vector<std::string>{"run", "-m", path.path, "-p", "x", "--image",
                                                                     vision::golden("pictures/64x64.png"), "--mmproj",
                                                                     vision::golden(mmproj)});
    return r.status == 0 ? "accepted" : r.err;
  };
  const std::string flat = error(TinyModel(), "qwen2vl_merger.gguf"),
                    placed = error(TinyModel().see("qwen2vl"), "gemma3.gguf"),
                    deep = error(TinyModel().see("qwen2vl"), "qwen3vl_merger.gguf");
  EXPECT_NE(flat.find("(qwen2vl_merger) whose rows have positions of three parts, and the model's have one part"),
            std::string::npos)
      << flat;
  EXPECT_NE(placed.find("whose rows have positions of one part, and the model's have three parts (M-RoPE)"),
            std::string::npos)
      << placed;
  EXPECT_NE(deep.find("gives rows for 2 layers besides (deepstack), expected the model's 0"), std::string::npos)
      << deep;
}

}  // namespace pictures_test
}  // namespace kvasir
