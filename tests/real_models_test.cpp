// Real models against transformers in float32 on the weights of the same file (KVASIR_TEST_DATA/golden/real): every
// position's distribution, greedy answers, and the tokenizer. Skips models that are not in the folder KVASIR_MODELS
// (~/.cache/kvasir-models).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/options.hpp"
#include "base/test_data_fixture.hpp"
#include "run/ask.hpp"
#include "run/engine.hpp"
#include "run/scheduler.hpp"

namespace kvasir::run {
namespace {

struct RealModel {
  const char* name;  // of the reference
  const char* file;
};

void PrintTo(const RealModel& model, std::ostream* out) { *out << model.name; }

std::string models_folder() {
  if (const char* folder = std::getenv("KVASIR_MODELS")) return folder;
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "") + "/.cache/kvasir-models";
}

class RealModels : public ::testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    const std::string reference = fixture::test_data("golden/real/") + GetParam().name + ".json";
    options_.model = models_folder() + "/" + GetParam().file;
    options_.exact = true;
    options_.threads = 2;
    options_.ctx = 512;
    for (const std::string& path : {reference, options_.model})
      if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    reference_ = parse_json(read_text_file(reference), reference);
  }
  nlohmann::json reference_;
  EngineOptions options_;
};
INSTANTIATE_TEST_SUITE_P(All, RealModels,
                         ::testing::Values(RealModel{"gemma3", "gemma-3-270m-q4_k_m.gguf"},
                                           RealModel{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                           RealModel{"qwen05", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(RealModels, DistributionsAreTheReferences) {
  const auto ids = reference_["ids"].get<std::vector<std::int32_t>>();
  Engine engine(options_, {.logits = static_cast<int>(ids.size())});
  const auto logits = engine.feed(engine.cache().create(), ids, static_cast<int>(ids.size()));
  const auto vocab = static_cast<std::size_t>(engine.model().spec().vocab);
  for (const auto& row : reference_["rows"]) {
    const auto i = row["i"].get<std::size_t>();
    const auto x = logits.subspan(i * vocab, vocab);
    const auto best = static_cast<std::size_t>(std::max_element(x.begin(), x.end()) - x.begin());
    EXPECT_EQ(best, row["argmax"].get<std::size_t>()) << i;
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v) - static_cast<double>(x[best]));
    EXPECT_NEAR(static_cast<double>(x[best]), row["logit"].get<double>(), 1e-3) << i;
    EXPECT_NEAR(static_cast<double>(x[best]) + std::log(sum), row["logsumexp"].get<double>(), 1e-3) << i;
  }
}

TEST_P(RealModels, GreedyAnswersAreTheReferences) {
  Engine engine(options_, {});
  Scheduler scheduler(engine, {.running = 1}, "real");
  for (const auto& answer : reference_["greedy"]) {
    const auto text = answer["prompt"].get<std::string>();
    Request request;
    request.prompt = answer["ids"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(engine.tokenizer()->encode(text, {.add_bos = engine.tokenizer()->add_bos()}), request.prompt) << text;
    const auto want = answer["greedy"].get<std::vector<std::int32_t>>();
    request.max_tokens = static_cast<std::int32_t>(want.size());
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    EXPECT_EQ(ask(scheduler, {.request = request}).ids, want) << text;
  }
}

}  // namespace
}  // namespace kvasir::run
