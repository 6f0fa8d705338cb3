// Vectors of texts against float64 references (tools/golden_encoders.py, tools/families/encoders.py): encoders, and a
// model that writes.
#include "run/encoder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/options.hpp"
#include "run/ask.hpp"
#include "run/scheduler.hpp"

namespace kvasir::run {
namespace {

using model::Pooling;

const std::string kFolder = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/";
const char* const kEncoders[] = {"bert",     "nomic-bert",     "modern-bert",       "neo-bert",
                                 "eurobert", "jina-bert-v2",   "jina-bert-v2-code", "jina-bert-v3",
                                 "gte",      "nomic-bert-moe", "gemma-embedding",   "gemma-embedding2"};
constexpr Pooling kVectors[] = {Pooling::kMean, Pooling::kCls, Pooling::kLast};

struct Golden {
  explicit Golden(const std::string& name) {
    const auto json = parse_json(read_text_file(kFolder + "encoders/" + name + ".json"), name);
    tokens = json["tokens"].get<std::vector<std::int32_t>>();
    second = json["second"].get<std::int64_t>();
    states = json["states"].get<std::vector<std::vector<double>>>();
    if (json.contains("rank")) rank = json["rank"].get<std::vector<double>>();
    if (json.contains("dense")) dense = json["dense"].get<std::vector<std::vector<std::vector<double>>>>();
  }
  // With what vectors go through behind the pooling.
  std::vector<double> vector(Pooling pooling) const {
    std::vector<double> x = pooled(pooling);
    for (const auto& matrix : dense) {
      std::vector<double> y;
      for (const auto& row : matrix) y.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
      x = std::move(y);
    }
    return x;
  }
  std::vector<double> pooled(Pooling pooling) const {
    if (pooling == Pooling::kCls) return states.front();
    if (pooling == Pooling::kLast) return states.back();
    if (pooling == Pooling::kRank) return rank;
    std::vector<double> mean(states[0].size());
    for (const auto& s : states)
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += s[i] / static_cast<double>(states.size());
    return mean;
  }
  std::vector<std::int32_t> tokens;
  std::int64_t second;
  std::vector<std::vector<double>> states;
  std::vector<double> rank;
  std::vector<std::vector<std::vector<double>>> dense;  // (matrices, rows, columns)
};

double error_of(const std::vector<float>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

EngineOptions options_of(const std::string& path, bool exact, std::int32_t chunk = 512) {
  EngineOptions o;
  o.model = path;
  o.exact = exact;
  o.threads = 2;
  o.chunk = chunk;
  return o;
}

ServiceRequest pooling(std::vector<std::int32_t> tokens, Pooling kind, std::int64_t second = -1) {
  ServiceRequest r;
  r.request.prompt = std::move(tokens);
  r.request.max_tokens = 0;
  r.request.pooling = kind;
  r.request.second = second;
  return r;
}

std::vector<float> vector_of(Service& service, const ServiceRequest& request) { return ask(service, request).vector; }

void expect_agreement(const std::string& path, const std::string& name, bool exact) {
  const Golden golden(name);
  Encoder encoder(options_of(path, exact), name, 8);
  EXPECT_FALSE(encoder.card().generates);
  EXPECT_EQ(encoder.card().width, 32);
  for (const Pooling kind : kVectors) {
    const double error = error_of(vector_of(encoder, pooling(golden.tokens, kind, golden.second)), golden.vector(kind));
    EXPECT_LE(error, exact ? 2e-4 : 0.05) << path << " " << model::name(kind);
    std::printf("%-18s %-5s %s %.2e\n", name.c_str(), std::string(model::name(kind)).c_str(),
                exact ? "exact" : "as used", error);
  }
  if (golden.rank.empty()) return;
  const auto rank = vector_of(encoder, pooling(golden.tokens, Pooling::kRank, golden.second));
  EXPECT_LE(error_of(rank, golden.rank), exact ? 2e-4 : 0.1) << path;
  EXPECT_EQ(encoder.card().labels, 1);
  if (golden.second < 0) return;
  // The second text is told from the first.
  EXPECT_GT(error_of(vector_of(encoder, pooling(golden.tokens, Pooling::kCls)), golden.vector(Pooling::kCls)), 0.01);
}

TEST(Encoder, AgreesWithFloat64) {
  int folders = 0;
  for (const std::string name : kEncoders)
    for (const bool exact : {true, false}) {
      const std::string base = kFolder + "encoders/" + name;
      expect_agreement(base + ".gguf", name, exact);
      if (!std::filesystem::is_directory(base)) continue;
      expect_agreement(base, name, exact);
      ++folders;
    }
  EXPECT_EQ(folders, 10);
}

class Vector final : public Listener {
 public:
  void pieces(std::span<const Piece>) override {}
  void pooled(std::span<const float> v) override { vector.assign(v.begin(), v.end()); }
  void done(const Outcome& o) override { outcome.set_value(o); }
  std::vector<float> vector;
  std::promise<Outcome> outcome;
};

TEST(Encoder, TextsBesideEachOtherAreAsAlone) {
  for (const char* name : kEncoders) {
    const Golden golden(name);
    Encoder encoder(options_of(kFolder + "encoders/" + name + ".gguf", false), name, 64);
    std::vector<std::vector<std::int32_t>> texts;
    for (std::size_t n = 1; n <= golden.tokens.size(); n += 3)
      texts.emplace_back(golden.tokens.begin(), golden.tokens.begin() + static_cast<std::ptrdiff_t>(n));
    std::vector<std::vector<float>> alone;
    for (const auto& t : texts) alone.push_back(vector_of(encoder, pooling(t, Pooling::kMean)));
    std::vector<std::shared_ptr<Vector>> all;
    for (const auto& t : texts)
      encoder.submit(pooling(t, Pooling::kMean), all.emplace_back(std::make_shared<Vector>()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Outcome out = all[i]->outcome.get_future().get();
      EXPECT_EQ(out.finish, Finish::kEnd);
      EXPECT_EQ(out.prompt_tokens, static_cast<std::int64_t>(texts[i].size()));
      EXPECT_EQ(all[i]->vector, alone[i]) << i;
    }
    EXPECT_TRUE(encoder.drain(10));
    EXPECT_THROW(encoder.submit(pooling({2, 3}, Pooling::kMean), std::make_shared<Vector>()), Error);
  }
}

TEST(Encoder, RefusesWhatItCannotDo) {
  const std::string path = kFolder + "encoders/nomic-bert.gguf";
  Encoder encoder(options_of(path, false), "nomic", 8);
  EXPECT_TRUE(is_encoder(path));
  EXPECT_FALSE(is_encoder(kFolder + "qwen3.gguf"));
  const auto refused = [&](const ServiceRequest& r) {
    try {
      encoder.submit(r, std::make_shared<Vector>());
    } catch (const Error& e) {
      return e.context();
    }
    return std::string("taken");
  };
  EXPECT_EQ(refused(pooling({2, 3}, Pooling::kNone)), "model");
  EXPECT_EQ(refused(pooling({2, 3}, Pooling::kRank)), "model");
  EXPECT_EQ(refused(pooling({}, Pooling::kMean)), "input");
  EXPECT_EQ(refused(pooling({2, 99}, Pooling::kMean)), "input");
  EXPECT_EQ(refused(pooling(std::vector<std::int32_t>(65, 5), Pooling::kMean)), "input");
  EXPECT_THROW(Engine(options_of(path, false), {}), Error);
  EXPECT_THROW(Encoder(options_of(kFolder + "qwen3.gguf", false), "x", 1), Error);
}

TEST(Embeddings, OfAModelThatWritesAgreeWithFloat64) {
  const Golden golden("qwen3");
  for (const bool exact : {true, false}) {
    std::vector<std::vector<float>> first;
    for (const std::int32_t chunk : {512, 7}) {
      EngineOptions o = options_of(kFolder + "qwen3.gguf", exact, chunk);
      o.kv = "f32";
      Engine engine(o, Engine::Needs{.sequences = 3, .pool_tokens = 4096, .logits = 3});
      Scheduler scheduler(engine, {.running = 3}, "test");
      EXPECT_EQ(scheduler.card().pooling, Pooling::kLast);
      std::vector<std::vector<float>> vectors;
      for (const Pooling kind : kVectors) {
        vectors.push_back(vector_of(scheduler, pooling(golden.tokens, kind)));
        EXPECT_LE(error_of(vectors.back(), golden.vector(kind)), exact ? 2e-4 : 0.1) << model::name(kind);
      }
      if (first.empty()) first = vectors;
      EXPECT_EQ(vectors, first) << "chunks of " << chunk;
      // Beside an answer that grows.
      ServiceRequest answer;
      answer.request.prompt = {5, 6, 7};
      answer.request.max_tokens = 200;
      answer.request.ignore_eos = true;
      const auto talk = std::make_shared<Vector>();
      scheduler.submit(answer, talk);
      EXPECT_EQ(vector_of(scheduler, pooling(golden.tokens, Pooling::kMean)), first[0]);
      EXPECT_EQ(talk->outcome.get_future().get().completion_tokens, 200);
      EXPECT_THROW(vector_of(scheduler, pooling({5}, Pooling::kRank)), Error);
      EXPECT_TRUE(scheduler.drain(10));
      EXPECT_EQ(scheduler.stats().kv_bytes, 0u);
    }
  }
}

}  // namespace
}  // namespace kvasir::run
