// The commands `inspect` and `synth`, as a user calls them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_fixture.hpp"
#include "weights/gguf_writer.hpp"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

Result run(const std::vector<std::string>& arguments) { return run_captured(arguments); }

class Inspect : public ::testing::Test {
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

// The ids are llama.cpp's for the same file (build of node-llama-cpp 3.22.1).
TEST_F(Inspect, ASyntheticVocabularyTokenizes) {
  ASSERT_EQ(run({"synth", "--shape", "tiny", "--quant", "q4_0", path_}).status, 0);
  const std::string text = path_ + ".txt";
  {
    std::ofstream out(text);
    out << "the tin on 12 \n é";
  }
  const Result r = run({"tokenize", "-m", path_, "--file", text, "--ids"});
  fs::remove(text);
  ASSERT_EQ(r.status, 0) << r.err;
  std::string ids;
  for (const char c : r.out) ids += c == ',' || c == '[' || c == ']' ? ' ' : c;
  std::istringstream in(ids);
  std::vector<int> got;
  for (int id; in >> id;) got.push_back(id);
  EXPECT_EQ(got, (std::vector<int>{119, 260, 259, 261, 35, 265, 35, 52, 53, 35, 13, 35, 198, 172})) << r.out;
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

TEST_F(Inspect, PlansTheCacheThatIsAskedFor) {
  ASSERT_EQ(run({"synth", "--shape", "tiny", "--quant", "Q8_0", "--threads", "2", path_}).status, 0);
  const auto plan = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"inspect", path_, "--json", "--ctx", "4096"});
    const Result r = run(options);
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["plan"];
  };
  const auto f16 = plan({"--kv", "exact"});
  const auto small = plan({"--kv", "rq3"});
  EXPECT_EQ(f16["k_codec"], "f16");
  EXPECT_EQ(small["k_codec"], "rq3");
  EXPECT_LT(small["sealed_bytes"].get<double>(), 0.3 * f16["sealed_bytes"].get<double>());
  EXPECT_EQ(small["raw_bytes"], f16["raw_bytes"]);
  EXPECT_EQ(small["sink_bytes"], f16["sink_bytes"]);
  EXPECT_EQ(plan({"--kv", "rq3", "--kv-layers", "0=f16"})["k_codec"], "f16 in layer 0, rq3 in layers 1-2");
  EXPECT_NE(plan({"--kv", "auto"})["note"].get<std::string>().find("auto"), std::string::npos);
  const auto share = [&](std::vector<std::string> options) {
    return plan(std::move(options))["kv_bytes_per_token"].get<double>() / f16["kv_bytes_per_token"].get<double>();
  };
  EXPECT_EQ(plan({})["k_codec"], plan({"--kv", "balanced"})["k_codec"]);
  EXPECT_LE(share({}), 0.30);
  EXPECT_LE(share({"--kv", "small"}), 0.23);
  EXPECT_LE(share({"--kv", "tiny"}), 0.16);
  EXPECT_LE(share({"--kv", "40%"}), 0.40);
  EXPECT_GT(share({"--kv", "40%"}), share({}));
  EXPECT_EQ(plan({"--kv", "small", "--kv-layers", "0-2=rq8"})["k_codec"], "rq8");
  // Errors of the options are errors of the command.
  for (const auto& [option, value, expected] : {std::tuple{"--kv", "nonsense", "'nonsense'"},
                                                {"--kv", "rq4:7", "it has no groups"},
                                                {"--kv", "101%", "expected 1% to 100%"},
                                                {"--k-codec", "f17", "f17"},
                                                {"--v-codec", "qjl1", "made for the keys only"},
                                                {"--kv-layers", "0-9=f16", "layer"},
                                                {"--window", "-1", "-1"}}) {
    const Result r = run({"inspect", path_, option, value});
    EXPECT_EQ(r.status, 2) << option << value;
    EXPECT_NE(r.err.find(expected), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  }
}

// Layers with a state: what they are, and what they take beside the pages of the others.
TEST_F(Inspect, StatesAreShown) {
  const std::string golden = KVASIR_SOURCE_DIR "/tests/golden/";
  const Result r = run({"inspect", golden + "qwen35.gguf", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto report = nlohmann::json::parse(r.out);
  EXPECT_NE(report["layers"].dump().find("gated DeltaNet of 4 heads over 2, state 16 x 16"), std::string::npos);
  // Two layers: the boundary's state and rows before it, 128 rows, the state now; 128 channels and 8 gates.
  EXPECT_EQ(report["plan"]["recurrent_bytes"], 2 * 4 * (2 * 4 * 16 * 16 + 3 * 128 + 128 * (128 + 8)));
  EXPECT_GT(report["plan"]["kv_bytes_per_token"], 0);
  const Result plain = run({"inspect", golden + "mamba2.gguf"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_NE(plain.out.find("Mamba-2 of 4 heads in 2 groups"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("states"), std::string::npos) << plain.out;
}

// The context that is named fits, and the next page would not.
TEST_F(Inspect, SaysWhatFits) {
  ASSERT_EQ(run({"synth", "--shape", "tiny", "--quant", "Q8_0", "--threads", "2", path_}).status, 0);
  Result r = run({"inspect", path_, "--memory", "100MiB", "--json", "-t", "2"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto fits = nlohmann::json::parse(r.out);
  const auto total = [&](const std::string& kv, std::int64_t ctx) {
    const Result plan =
        run({"inspect", path_, "--json", "-t", "2", "--kv", kv == "f16" ? "exact" : kv, "--ctx", std::to_string(ctx)});
    return nlohmann::json::parse(plan.out)["plan"]["total_bytes"].get<std::int64_t>();
  };
  constexpr std::int64_t kRoom = (100 - 64) << 20;  // run::kProgramBytes
  std::int64_t before = 0;
  ASSERT_GT(fits["caches"].size(), 5u);
  EXPECT_EQ(fits["caches"][0]["kv"], "f16");
  for (const auto& f : fits["caches"]) {
    const std::int64_t context = f["context"];
    EXPECT_LE(total(f["kv"], context), kRoom) << f;
    EXPECT_GT(total(f["kv"], context + 128), kRoom) << f;
    EXPECT_GE(context + 512, before) << f;  // the less a token takes, the more fit, but for what codecs keep beside
    before = context;
  }
  EXPECT_GT(before, 2 * fits["caches"][0]["context"].get<std::int64_t>());

  r = run({"inspect", path_, path_, "--memory", "100MiB", "-t", "2"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("safe"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("kivi2"), std::string::npos) << r.out;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 4) << r.out;
  EXPECT_NE(run({"inspect", path_, "--memory", "65MiB"}).out.find("none"), std::string::npos);
  r = run({"inspect", path_, "--memory", "100MiB", "--kv", "rq3/rq2"});
  EXPECT_NE(r.out.find("rq3/rq2"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("balanced"), std::string::npos) << r.out;

  EXPECT_NE(run({"inspect", path_, path_}).err.find("MODEL: expected one"), std::string::npos);
  EXPECT_NE(run({"inspect", path_, "--memory", "16 apples"}).err.find("--memory: "), std::string::npos);
  EXPECT_NE(run({"inspect", path_, "--memory", "1GiB", "--ctx", "4K"}).err.find("--ctx: "), std::string::npos);
}

TEST_F(Inspect, ReadsCountsWithK) {
  ASSERT_EQ(run({"synth", "--shape", "tiny", "--quant", "Q8_0", "--threads", "2", path_}).status, 0);
  const Result r = run({"inspect", path_, "--json", "--ctx", "4K"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["plan"]["context"], 4096);
  EXPECT_NE(run({"inspect", path_, "--ctx", "4G"}).err.find("found '4G'"), std::string::npos);
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
