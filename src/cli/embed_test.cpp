// kvasir embed, from arguments to output and status, on the golden encoder and on the bundled model.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_fixture.hpp"

namespace kvasir::cli {
namespace embed_test {

const std::string kSource = KVASIR_SOURCE_DIR;
const std::string kBert = kSource + "/tests/golden/encoders/bert.gguf";
const std::string kBooks = kSource + "/models/kvasir-books-4m.gguf";

Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "embed");
  return run_captured(arguments);
}

nlohmann::json json_of(const Result& r) {
  EXPECT_EQ(r.status, 0) << r.err;
  return nlohmann::json::parse(r.out, nullptr, false);
}

TEST(Embed, PrintsTheVectorOfAText) {
  const auto bert = json_of(run({"-m", kBert, "-p", "the old man"}));
  EXPECT_EQ(bert["pooling"], "cls");
  EXPECT_EQ(bert["dimensions"], 32);
  EXPECT_EQ(bert["tokens"], 5);  // [CLS] and [SEP], too
  double squares = 0;
  for (const double x : bert["embeddings"][0].get<std::vector<double>>()) squares += x * x;
  EXPECT_NEAR(squares, 1, 1e-5);
  const auto books = json_of(run({"-m", kBooks, "-p", "the old man", "-t", "1"}));
  EXPECT_EQ(books["pooling"], "last");
  EXPECT_EQ(books["embeddings"].size(), 1u);
}

TEST(Embed, LinesAreTextsOfTheirOwn) {
  const auto path = std::filesystem::temp_directory_path() / ("kvasir_embed_" + std::to_string(::getpid()));
  std::ofstream(path, std::ios::binary) << "the sea\r\n\nthe ship\nthe sea";
  const auto lines =
      json_of(run({"-m", kBert, "-f", path.string(), "--lines", "--pooling", "mean", "--dimensions", "4", "--raw"}));
  std::filesystem::remove(path);
  ASSERT_EQ(lines["embeddings"].size(), 3u);
  EXPECT_EQ(lines["embeddings"][0], lines["embeddings"][2]);
  EXPECT_NE(lines["embeddings"][0], lines["embeddings"][1]);
  EXPECT_EQ(lines["embeddings"][0].size(), 4u);
  EXPECT_EQ(lines["pooling"], "mean");
}

TEST(Embed, TokensAreReadFromAFile) {
  const auto path = std::filesystem::temp_directory_path() / ("kvasir_embed_ids_" + std::to_string(::getpid()));
  const auto of = [&](const std::string& ids, std::vector<std::string> more) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << ids;
    more.insert(more.begin(), {"-m", kBert, "--exact", "--tokens-file", path.string()});
    return run(more);
  };
  const auto one = json_of(of("[2, 6, 14, 3]", {})), lists = json_of(of("[[2, 3], [2, 6, 14, 3]]", {}));
  EXPECT_EQ(one["tokens"], 4);
  ASSERT_EQ(lists["embeddings"].size(), 2u);
  EXPECT_EQ(lists["embeddings"][1], one["embeddings"][0]);
  const auto scores = json_of(of("[2, 6, 14, 3]", {"--pooling", "rank"}));
  EXPECT_EQ(scores["scores"][0].size(), 1u);
  for (const char* bad : {"[]", "{}", "[2, -1]", "[[2], 3]", "[2.5]", "[\"a\"]"})
    EXPECT_EQ(of(bad, {}).status, 2) << bad;
  EXPECT_EQ(of("[2]", {"-p", "x"}).status, 2);
  std::filesystem::remove(path);
}

TEST(Embed, WhatIsWrongIsNamed) {
  const auto says = [](const Result& r, std::string_view text) {
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find(text), std::string::npos) << r.err;
  };
  says(run({"-m", kBert, "-p", "x", "-f", "y"}), "expected one of -p TEXT and -f FILE");
  says(run({"-m", kBert, "-p", "x", "--pooling", "best"}), "expected mean, cls or last");
  says(run({"-m", kBert, "-p", "x", "--dimensions", "33"}), "expected at most the model's 32");
  says(run({"-m", kBert, "-p", "\n\n", "--lines"}), "holds no text");
  std::string tall;
  for (int i = 0; i < 70; ++i) tall += "sea ";
  says(run({"-m", kBert, "-p", tall}), "expected at most the context's 64");
  EXPECT_EQ(run_captured(std::vector<std::string>{"run", "-m", kBert, "-p", "x"}).status, 1);
}

}  // namespace embed_test
}  // namespace kvasir::cli
