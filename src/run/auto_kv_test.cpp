#include "run/auto_kv.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "kv/spec.hpp"
#include "run/ask.hpp"
#include "run/engine.hpp"
#include "run/scheduler.hpp"

namespace kvasir::run {
namespace auto_kv_test {

const std::string kModel = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

EngineOptions options(const char* kv) {
  EngineOptions o;
  o.model = kModel;
  o.ctx = 1024;
  o.kv = kv;
  return o;
}

std::vector<std::int32_t> text(const Engine& engine, std::size_t tokens) {
  const std::string book = read_text_file(std::string(KVASIR_SOURCE_DIR) + "/docs/results/reasons.md");
  std::vector<std::int32_t> ids = engine.tokenizer()->encode(book);
  EXPECT_GE(ids.size(), tokens);
  ids.resize(tokens);
  return ids;
}

std::string codecs_of(const Engine& engine) { return kv::codecs_text(engine.codecs()); }

TEST(AutoKv, TheFirstPromptChooses) {
  Engine engine(options("auto"), {});
  EXPECT_EQ(codecs_of(engine), "f16");
  const double f16_bytes = engine.cache().memory().bytes_per_token;
  Request request;
  request.prompt = text(engine, 600);
  request.max_tokens = 3;
  request.sampling.temperature = 0;
  engine.choose_codecs(request.prompt);
  {
    Scheduler scheduler(engine, {.running = 1}, "test");
    EXPECT_EQ(ask(scheduler, {.request = request}).ids.size(), 3u);
  }
  EXPECT_NE(codecs_of(engine).find("rq"), std::string::npos) << codecs_of(engine);
  EXPECT_NE(engine.kv_note().find("508 tokens"), std::string::npos) << engine.kv_note();
  EXPECT_LT(engine.cache().memory().bytes_per_token, 0.5 * f16_bytes);

  // Chosen once: a later prompt changes nothing.
  const std::string chosen = codecs_of(engine);
  engine.choose_codecs(text(engine, 10));
  EXPECT_EQ(codecs_of(engine), chosen);
}

TEST(AutoKv, ASmallerBudgetTakesMoreBits) {
  double bytes = 1e9;
  for (const float noise : {0.001f, 0.05f, 0.3f}) {
    EngineOptions o = options("auto");
    o.kv_noise = noise;
    Engine engine(o, {});
    engine.choose_codecs(text(engine, 300));
    EXPECT_LT(engine.cache().memory().bytes_per_token, bytes) << noise;
    bytes = engine.cache().memory().bytes_per_token;
  }
}

TEST(AutoKv, ExceptionsOfTheUserStand) {
  EngineOptions o = options("auto");
  o.kv_layers = "1=f32";
  Engine engine(o, {});
  engine.choose_codecs(text(engine, 300));
  EXPECT_NE(codecs_of(engine).find("f32 in layer 1"), std::string::npos) << codecs_of(engine);
}

TEST(AutoKv, TooShortAPromptKeepsF16AndSaysSo) {
  Engine engine(options("auto"), {});
  engine.choose_codecs(text(engine, 20));
  EXPECT_EQ(codecs_of(engine), "f16");
  EXPECT_NE(engine.kv_note().find("16, the choice needs 64"), std::string::npos) << engine.kv_note();
}

// RMS norms of heads say how large queries and keys become; layer norms, which may add a bias, do not.
TEST(AutoKv, OnlyRmsNormsOfHeadsChooseWithoutAPrompt) {
  const auto note = [](const char* name) {
    EngineOptions o = options("auto");
    o.model = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/" + name;
    return Engine(o, {}).kv_note();
  };
  EXPECT_NE(note("qwen3.gguf").find("norms of queries and keys"), std::string::npos) << note("qwen3.gguf");
  EXPECT_EQ(note("persimmon.gguf").find("norms of queries and keys"), std::string::npos) << note("persimmon.gguf");
}

TEST(AutoKv, DefaultIsBalanced) {
  Engine engine(options(""), {});
  EXPECT_EQ(codecs_of(engine), codecs_of(Engine(options("balanced"), {})));
  EXPECT_EQ(codecs_of(engine).find("f16"), std::string::npos) << codecs_of(engine);
  EXPECT_LE(engine.cache().memory().bytes_per_token,
            0.30 * Engine(options("f16"), {}).cache().memory().bytes_per_token);
  EXPECT_EQ(engine.kv_note(), "");
  EngineOptions exact = options("");
  exact.exact = true;
  EXPECT_EQ(codecs_of(Engine(exact, {})), "f32");
}

// Presets of few bytes read the built-in text; what they choose does not depend on threads or chunks.
TEST(AutoKv, TinyReadsAText) {
  Engine engine(options("tiny"), {});
  EXPECT_LE(engine.cache().memory().bytes_per_token,
            0.16 * Engine(options("f16"), {}).cache().memory().bytes_per_token);
  const std::vector<std::vector<float>>& factors = engine.cache_options().key_factors;
  ASSERT_EQ(factors.size(), 4u);
  for (const std::vector<float>& layer : factors) EXPECT_EQ(layer.size(), 2u * 64);
  EXPECT_EQ(codecs_of(Engine(options("16%"), {})), codecs_of(engine));
  EngineOptions other = options("tiny");
  other.threads = engine.options().threads == 1 ? 2 : 1;
  other.chunk = 100;
  other.ctx = 600;
  Engine again(other, {});
  EXPECT_EQ(codecs_of(again), codecs_of(engine));
  EXPECT_EQ(again.cache_options().key_factors, factors);
  for (const std::vector<float>& layer : engine.cache_options().key_metrics) EXPECT_EQ(layer.size(), 2u * 64 * 64);
  EXPECT_EQ(again.cache_options().key_metrics, engine.cache_options().key_metrics);
  // No text for those that keep more; this model's file says nothing of channels.
  const Engine small(options("small"), {});
  for (const std::vector<float>& layer : small.cache_options().key_factors) EXPECT_TRUE(layer.empty());
  EXPECT_TRUE(small.cache_options().key_metrics.empty());
  // What the text tells has its place in the plan before it is read.
  const auto file = weights::open_model_file(kModel);
  EXPECT_EQ(plan_engine(*file, engine.options(), 1, 1).cache.state_bytes, engine.cache().memory().state_bytes);
}

TEST(AutoKv, TheCacheHasANameAndItsBytesInSixteenBits) {
  Engine plain(options("f16"), {});
  const model::ModelSpec& spec = plain.model().spec();
  EXPECT_EQ(f16_bytes_per_token(plain.options(), spec), plain.cache().memory().bytes_per_token);
  EXPECT_EQ(kv_name(EngineOptions(), spec), "balanced");
  EXPECT_EQ(kv_name(options("auto"), spec), "auto");
  EngineOptions one_side;
  one_side.k_codec = "rq8";
  EXPECT_EQ(kv_name(one_side, spec), "rq8/f16");
}

TEST(AutoKv, SmallHeadsStayRawByDefaultAndSaySo) {
  model::ModelSpec spec;
  spec.layers.push_back({.mixer = model::Attention{.d = 8, .dv = 8}});
  std::string note;
  EXPECT_EQ(default_kv(spec, &note), "f16");
  EXPECT_NE(note.find("size 8"), std::string::npos);
}

}  // namespace auto_kv_test
}  // namespace kvasir::run
