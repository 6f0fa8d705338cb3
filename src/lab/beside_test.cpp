#include "lab/beside.hpp"

#include <gtest/gtest.h>

#include <string>

namespace kvasir::lab {
namespace {

TEST(Beside, MeasuresAnswersAndPromptsTogether) {
  run::EngineOptions engine_options;
  engine_options.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  engine_options.ctx = 1024;
  engine_options.threads = 2;
  engine_options.chunk = 64;
  run::Engine engine(engine_options, {.sequences = 3, .pool_tokens = 2048, .logits = 3});
  const BesideOptions options{.prompt = 600, .tokens = 4, .shorter = 8, .answers = 0, .runs = 2};
  int polls = 0;
  const auto runs = measure_beside(engine, {.running = 3, .step_tokens = 32, .step_ms = 0}, options,
                                   [&](std::int64_t done, std::int64_t total) {
                                     EXPECT_EQ(done, polls++);
                                     EXPECT_EQ(total, 2);
                                     return done == 0;
                                   });
  ASSERT_EQ(runs.size(), 1u);  // stopped before the second
  EXPECT_EQ(polls, 2);
  const BesideRun& r = runs[0];
  EXPECT_GT(r.alone, 0);
  EXPECT_GT(r.beside, 0);
  EXPECT_GT(r.short_alone, 0);
  EXPECT_GT(r.short_behind, 0);
  EXPECT_EQ(r.gaps_alone.size(), 3u);
  EXPECT_GE(r.gaps.size(), 8u);  // the prompt takes 19 steps of 31 tokens, and answers go on through all of them
}

}  // namespace
}  // namespace kvasir::lab
