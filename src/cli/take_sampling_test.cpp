#include "cli/take_sampling.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_fixture.hpp"
#include "run/model_sampling_fixture.hpp"

namespace kvasir::cli {
namespace {

// `kvasir run` on a file that asks for greedy answers, and for a stage that is not here.
TEST(TakeSampling, TheFileDecidesWhatTheCommandLineLeavesOut) {
  const run::testing::ModelWithKeys file([](weights::GgufHeader& h) {
    h.set("general.sampling.temp", 0.0f);
    h.set("general.sampling.mirostat", std::int32_t{2});
  });
  const auto text = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", "-m", file.path(), "-p",  "It was",       "-n",    "24",
                                       "-t",  "2",  "--ctx",     "256", "--ignore-eos", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result r = run_captured(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_NE(r.err.find("general.sampling.mirostat is not used"), std::string::npos) << r.err;
    return nlohmann::json::parse(r.out)["text"].get<std::string>();
  };
  const std::string greedy = text({"--temperature", "0"});
  EXPECT_EQ(text({"--seed", "1"}), greedy);
  EXPECT_EQ(text({"--seed", "2"}), greedy);
  EXPECT_NE(text({"--seed", "2", "--temperature", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0"}), greedy);
  // 0.8 is the option's own preset, but it was given.
  EXPECT_NE(text({"--seed", "1", "--temperature", "0.8"}), text({"--seed", "2", "--temperature", "0.8"}));
}

}  // namespace
}  // namespace kvasir::cli
