// The commands `inspect` and `synth`, as a user calls them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/front.hpp"
#include "weights/gguf_writer.hpp"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

struct Result {
  int status;
  std::string out, err;
};

Result run(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_command_line(arguments);
  std::fflush(stdout);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class Inspect : public testing::Test {
 protected:
  ~Inspect() override { fs::remove(path_); }
  std::string path_ = (fs::temp_directory_path() / fmt::format("inspect{}.gguf", ::getpid())).string();
};

TEST_F(Inspect, ShowsASyntheticModel) {
  Result r = run({"synth", "--shape", "tiny", "--quant", "Q8_0", "--threads", "2", path_});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("tiny with random q8_0 weights, 2.9 M parameters"), std::string::npos) << r.out;

  r = run({"inspect", path_});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("general.architecture                         llama\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("[1024] <|endoftext|>, "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("blk.2.ffn_down.weight"), std::string::npos);
  EXPECT_NE(r.out.find("2885376 parameters"), std::string::npos);
  EXPECT_EQ(r.out.find("filler1000"), std::string::npos);
  EXPECT_NE(run({"inspect", "--full", path_}).out.find("filler1000"), std::string::npos);

  r = run({"inspect", "--json", path_});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["bytes"], fs::file_size(path_));
  EXPECT_EQ(j["metadata"]["llama.block_count"], 3);
  EXPECT_EQ(j["metadata"]["tokenizer.ggml.tokens"]["length"], 1024);
  EXPECT_EQ(j["tensors"].size(), 30u);
  EXPECT_EQ(j["tensors"][0]["type"], "q8_0");
  EXPECT_EQ(j["tensors"][0]["shape"], (std::vector<int>{256, 1024}));
  EXPECT_EQ(j["tensors"][0]["bytes"], 256 * 1024 / 32 * 34);
  EXPECT_EQ(j["totals"]["all"]["parameters"], 2885376);
  EXPECT_EQ(j["totals"]["types"]["f32"]["tensors"], 7);
}

TEST_F(Inspect, SynthSpeaksJson) {
  const Result r = run({"synth", "--json", "--shape=tiny", "--quant=f16", "--seed=3", path_});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["bytes"], fs::file_size(path_));
  EXPECT_EQ(j["quant"], "f16");
  EXPECT_EQ(j["seed"], 3);
}

TEST_F(Inspect, TextFromTheFileCannotSteerTheTerminal) {
  weights::GgufHeader h;
  h.set_string("evil\x1b[2J",
               "a\x1b]0;title\x07 \xc2\x9b"
               "b");
  h.set_string("long", std::string(119, 'x') + "äöü" + std::string(1000, 'y'));
  weights::GgufWriter(path_, h).finish();
  const Result r = run({"inspect", path_});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out.find('\x1b'), std::string::npos);
  EXPECT_NE(r.out.find("evil\\x1b[2J"), std::string::npos);
  EXPECT_NE(r.out.find("a\\x1b]0;title\\x07 \\x9bb"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("x… (1125 bytes)"), std::string::npos) << r.out;  // cut before the character it would split
}

TEST_F(Inspect, BadFilesAndOptions) {
  EXPECT_EQ(run({"inspect", "/nonexistent.gguf"}).status, 1);
  Result r = run({"inspect", KVASIR_SOURCE_DIR "/CMakeLists.txt"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("no model file: it starts with 'cmake_mi'"), std::string::npos) << r.err;
  r = run({"synth", "--quant", "q4_9", path_});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("unknown weight type 'q4_9'; expected one of "), std::string::npos) << r.err;
  EXPECT_EQ(run({"synth", "--shape", "gpt-5", path_}).status, 2);
  EXPECT_EQ(run({"synth"}).status, 2);
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace kvasir::cli
