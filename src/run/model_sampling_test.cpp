#include "run/model_sampling.hpp"

#include <gtest/gtest.h>

#include <array>

#include "run/answer.hpp"
#include "run/engine.hpp"
#include "run/model_sampling_fixture.hpp"

namespace kvasir::run {
namespace {

TEST(ModelSampling, StandsForWhatIsNotGiven) {
  weights::Metadata metadata;
  EXPECT_TRUE(read_model_sampling(metadata).values.empty());
  metadata.set("general.sampling.temp", 0.25);
  metadata.set("general.sampling.top_k", std::int64_t{20});
  metadata.set("general.sampling.top_p", 0.5);
  metadata.set("general.sampling.min_p", std::int64_t{0});
  metadata.set("general.sampling.penalty_repeat", 1.5);
  metadata.set("general.sampling.penalty_last_n", std::int64_t{32});
  const ModelSampling model = read_model_sampling(metadata);
  EXPECT_EQ(model.note, "");
  EXPECT_EQ(model.get("temperature", 1), 0.25);
  EXPECT_EQ(model.get("presence_penalty", 7), 7);
  SamplingOptions options;
  model.fill(options, [](const std::string& name) { return name == "top_k"; });
  EXPECT_EQ(options.temperature, 0.25f);
  EXPECT_EQ(options.top_k, 40);
  EXPECT_EQ(options.top_p, 0.5f);
  EXPECT_EQ(options.min_p, 0.0f);
  EXPECT_EQ(options.repetition_penalty, 1.5f);
  EXPECT_EQ(options.penalty_last_n, 32);
}

TEST(ModelSampling, WhatCannotBeDoneIsSaid) {
  weights::Metadata metadata;
  metadata.set("general.sampling.temp", -1.0);  // off
  metadata.set("general.sampling.top_p", 3.0);
  metadata.set("general.sampling.penalty_last_n", std::string("all"));
  metadata.set("general.sampling.top_k", 2.5);
  metadata.set("general.sampling.xtc_probability", 0.0);  // as if it were not there
  metadata.set("general.sampling.mirostat", std::int64_t{2});
  metadata.set("general.sampling.sequence", std::string("top_k;temp"));
  const ModelSampling model = read_model_sampling(metadata);
  ASSERT_EQ(model.values.size(), 1u);
  EXPECT_EQ(model.get("temperature", 1), 0);
  for (const char* key : {"top_p", "penalty_last_n", "top_k", "mirostat", "sequence"})
    EXPECT_NE(model.note.find("general.sampling." + std::string(key)), std::string::npos) << model.note;
  EXPECT_EQ(model.note.find("xtc"), std::string::npos) << model.note;
}

std::vector<std::int32_t> greedy(Engine& engine, const SamplingOptions& more) {
  Request request;
  request.prompt = engine.tokenizer()->encode("It was a dark and stormy night");
  request.max_tokens = 40;
  request.sampling = more;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  Answer answer(engine, request);
  kv::Sequence* const sequence = engine.cache().create();
  std::span<const float> row = engine.feed(sequence, request.prompt);
  while (answer.next(row, kv::Cache::length(*sequence))) row = engine.decode(sequence, answer.token());
  engine.cache().release(sequence);
  return {answer.ids().begin(), answer.ids().end()};
}

TEST(SuppressedTokens, AreNeverGenerated) {
  EngineOptions options;
  options.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  options.threads = 2;
  options.ctx = 256;
  std::vector<std::int32_t> plain;
  {
    Engine engine(options, {});
    EXPECT_TRUE(engine.tokenizer()->suppressed().empty());
    plain = greedy(engine, {});
  }
  const testing::ModelWithKeys file([&](weights::GgufHeader& h) {
    const std::array<std::int32_t, 3> ids{plain[0], -1, 1 << 20};  // the converter lets any pass
    h.set_array<std::int32_t>("tokenizer.ggml.suppress_tokens", ids);
  });
  options.model = file.path();
  Engine engine(options, {});
  ASSERT_EQ(engine.tokenizer()->suppressed().size(), 1u);
  SamplingOptions wanted;
  wanted.logit_bias[plain[0]] = 100;
  for (const SamplingOptions& more : {SamplingOptions{}, wanted}) {
    const std::vector<std::int32_t> ids = greedy(engine, more);
    EXPECT_EQ(ids.size(), 40u);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), plain[0]), 0);
  }
}

}  // namespace
}  // namespace kvasir::run
