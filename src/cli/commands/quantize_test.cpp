// The command `quantize`, as a user calls it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_fixture.hpp"

namespace kvasir::cli {
namespace quantize_test {

namespace fs = std::filesystem;

Result run(const std::vector<std::string>& arguments) { return run_captured(arguments); }

class QuantizeCommand : public ::testing::Test {
 protected:
  QuantizeCommand() {
    fs::create_directories(folder_);
    const Result r = run({"synth", "--shape", "tiny-experts", "--quant", "f16", in_});
    EXPECT_EQ(r.status, 0) << r.err;
  }
  ~QuantizeCommand() override { fs::remove_all(folder_); }
  const std::string folder_ = (fs::temp_directory_path() / fmt::format("quantize{}", ::getpid())).string();
  const std::string in_ = folder_ + "/in.gguf", out_ = folder_ + "/out.gguf";
};

TEST_F(QuantizeCommand, ShowsTheErrorOfEachTensorAndTheModelRuns) {
  Result r = run({"quantize", in_, out_, "--type", "q4_k_m", "--threads", "2"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("blk.1.ffn_down_exps.weight"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("Q4_K_M"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("largest error"), std::string::npos) << r.out;
  r = run({"run", "-m", out_, "-p", "Once", "-n", "3", "--ctx", "256", "--ignore-eos"});
  EXPECT_EQ(r.status, 0) << r.err;
}

TEST_F(QuantizeCommand, SpeaksJson) {
  const Result r = run({"quantize", in_, out_, "--type=Q8_0", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["bytes"], fs::file_size(out_));
  EXPECT_EQ(j["type"], "Q8_0");
  EXPECT_GT(j["bits_per_weight"], 8.4);
  EXPECT_LT(j["bits_per_weight"], 9.0);
  for (const auto& t : j["tensors"]) {
    EXPECT_TRUE(t["name"] != "blk.0.ffn_gate_inp.weight" || t["to"] == "f32");
    if (t["name"] == "blk.0.ffn_up_exps.weight") {
      EXPECT_EQ(t["from"], "f16");
      EXPECT_EQ(t["to"], "q8_0");
      EXPECT_GT(t["error"], 1e-4);
      EXPECT_LT(t["error"], 1e-2);
    }
  }
}

TEST_F(QuantizeCommand, RefusesInOneSentenceAndLeavesNothing) {
  const auto expect = [&](const std::vector<std::string>& more, const char* part) {
    std::vector<std::string> arguments{"quantize", in_, out_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result r = run(arguments);
    EXPECT_EQ(r.status, 2) << part;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(out_));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  };
  expect({"--type", "Q4_K_X"}, "did you mean 'Q4_K");
  expect({"--type", "Q2_K_S"}, "importance matrix");
  expect({"--type", "Q4_0", "--importance", in_}, "no importance matrix");
  Result r = run({"quantize", in_, in_, "--type", "Q4_0"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("is a file that is read"), std::string::npos) << r.err;
  r = run({"quantize", folder_, out_, "--type", "Q4_0"});
  EXPECT_EQ(r.status, 2);
  r = run({"quantize", in_, folder_ + "/none/out.gguf", "--type", "Q4_0"});
  EXPECT_NE(r.status, 0);
  EXPECT_NE(r.err.find("cannot create"), std::string::npos) << r.err;
}

}  // namespace quantize_test
}  // namespace kvasir::cli
