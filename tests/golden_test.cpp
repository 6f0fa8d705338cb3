// The engine against a float64 reference: golden models of every architecture and weight type, greedy text, and law 1:
// the same bits for every chunking, thread count and batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/options.hpp"
#include "base/test_data_fixture.hpp"
#include "expert_choices_fixture.hpp"
#include "logits_fixture.hpp"
#include "model/arch.hpp"
#include "model/synth.hpp"
#include "run/ask.hpp"
#include "run/engine.hpp"
#include "run/scheduler.hpp"
#include "simd/bf16_products.hpp"
#include "tiny_model_fixture.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run {
namespace golden_test {

using kvasir::testing::relative_error;

const std::string kGolden = fixture::test_data("golden/");
const std::string kShipped = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/";  // made by tools/golden_models.py
const std::string kDemo = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

#define NEEDS(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there"

std::vector<std::int32_t> golden_tokens(const std::string& folder = kGolden) {
  return parse_json(read_text_file(folder + "tokens.json"), "tokens.json")["tokens"].get<std::vector<std::int32_t>>();
}

std::vector<float> read_floats(const std::string& path) {
  const std::string bytes = read_text_file(path);
  std::vector<float> x(bytes.size() / 4);
  std::memcpy(x.data(), bytes.data(), x.size() * 4);
  return x;
}

EngineOptions options_for(const std::string& model, bool exact, int chunk, int threads) {
  EngineOptions o;
  o.model = model;
  o.exact = exact;
  o.chunk = chunk;
  o.threads = threads;
  o.ctx = 2048;
  return o;
}

struct Outcome {
  std::vector<float> logits;
  std::uint64_t cache = 0;
};

// All logits of `ids`, fed in chunks.
Outcome logits_of(const EngineOptions& o, const std::vector<std::int32_t>& ids) {
  Engine engine(o, {.sequences = 1, .logits = o.chunk});
  kv::Sequence* s = engine.cache().create();
  Outcome run;
  for (std::size_t i = 0; i < ids.size(); i += static_cast<std::size_t>(o.chunk)) {
    const std::size_t n = std::min(ids.size() - i, static_cast<std::size_t>(o.chunk));
    const auto rows = engine.feed(s, std::span(ids).subspan(i, n), static_cast<int>(n));
    run.logits.insert(run.logits.end(), rows.begin(), rows.end());
  }
  run.cache = engine.cache().bytes().digest(*s);
  engine.cache().check_integrity();
  return run;
}

// A model with NAME.logits.f32 beside it and the tokens of these logits in `tokens`.
struct GoldenFile {
  std::string name;
  std::string base;    // path without .gguf
  std::string tokens;  // folder
};

void PrintTo(const GoldenFile& file, std::ostream* out) { *out << file.base; }

// All golden models that are there: those of the project, larger ones beside the repository, and those in the folder
// that KVASIR_GOLDEN names.
std::vector<GoldenFile> golden_files() {
  std::vector<GoldenFile> files;
  const auto list = [&](const std::string& prefix, const std::string& folder, const std::string& tokens) {
    if (!std::filesystem::is_directory(folder)) return;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".gguf") continue;
      std::string name = prefix + entry.path().stem().string();
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      files.push_back({name, folder + entry.path().stem().string(), tokens});
    }
  };
  list("shipped_", kShipped, kShipped);
  list("", kGolden, kGolden);
  list("quant_", kGolden + "quant/", kGolden);
  if (const char* folder = std::getenv("KVASIR_GOLDEN"))
    list("more_", std::string(folder) + "/", std::string(folder) + "/");
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

class GoldenModel : public ::testing::TestWithParam<GoldenFile> {};

// Exact weights, and weights as they are used: integer products with 8-bit activations, or bf16.
TEST_P(GoldenModel, AgreesWithFloat64) {
  const GoldenFile& file = GetParam();
  const std::string path = file.base + ".gguf";
  {
    const auto model = weights::open_model_file(path);
    const std::string arch = model->metadata().require_string("general.architecture");
    if (kvasir::find(model::archs(), arch) == nullptr)
      GTEST_SKIP() << path << " has the architecture " << arch << ", which no entry of model/archs knows";
  }
  NEEDS(file.base + ".logits.f32");
  const auto want = read_floats(file.base + ".logits.f32");
  const auto ids = golden_tokens(file.tokens);
  const auto error = [&](bool exact, int chunk) {
    EngineOptions options = options_for(path, exact, chunk, 2);
    options.ctx = 0;  // what the model was made for: positions may be learned, factors depend on it
    return relative_error(logits_of(options, ids).logits, want);
  };
  const double exact = error(true, 64);
  const double fast = error(false, 512);
  EXPECT_LE(exact, 1e-4);
  // As of folders (golden_folder_test.cpp): a close choice of experts falls otherwise where operands are rounded.
  if (fast > 0.10) {
    testing::Choices chosen, got;
    testing::run_choosing(path, ids, true, "", {.choices = &chosen});
    testing::run_choosing(path, ids, false, "", {.choices = &got});
    EXPECT_NE(chosen.experts, got.experts);
    EXPECT_LE(relative_error(testing::run_choosing(path, ids, false, "", {.forced = &chosen}).logits, want), 0.10);
  }
  std::printf("%-24s exact %.2e, as used %.2e\n", file.name.c_str(), exact, fast);
}
INSTANTIATE_TEST_SUITE_P(All, GoldenModel, ::testing::ValuesIn(golden_files()),
                         [](const auto& p) { return p.param.name; });

// Files as llama.cpp's converter writes them, which say some things otherwise or not at all, beside transformers.
TEST(Golden, ConvertedFilesAgreeWithTransformers) {
  const std::string folder = kShipped + "converted/";
  const auto ids = golden_tokens(kShipped);
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string base = folder + entry.path().stem().string();
    EngineOptions options = options_for(entry.path().string(), true, 64, 2);
    options.ctx = 0;
    const double error = relative_error(logits_of(options, ids).logits, read_floats(base + ".logits.f32"));
    // The converter computes in float16: Falcon-H1's products of weights and factors, decays of states.
    const bool rounded = entry.path().stem() == "falcon_h1" || entry.path().stem() == "bamba";
    EXPECT_LE(error, rounded ? 1e-3 : 1e-4) << entry.path().filename();
    std::printf("%-24s exact %.2e\n", entry.path().stem().c_str(), error);
    ++seen;
  }
  EXPECT_GE(seen, 7);
}

// They are part of the project, so their absence is no reason to skip.
TEST(Golden, EveryArchitectureHasAModel) {
  std::set<std::string> shipped;
  for (const GoldenFile& file : golden_files())
    if (file.base.starts_with(kShipped))
      shipped.insert(weights::open_model_file(file.base + ".gguf")->metadata().require_string("general.architecture"));
  for (const auto& entry : std::filesystem::directory_iterator(kShipped + "encoders"))  // run/encoder_test.cpp
    if (entry.path().extension() == ".gguf")
      shipped.insert(
          weights::open_model_file(entry.path().string())->metadata().require_string("general.architecture"));
  for (const auto& arch : model::archs())  // tests/assistant_test.cpp has those that draft for others
    EXPECT_TRUE(!arch.value->drafts_for.empty() || shipped.contains(std::string(arch.name))) << arch.name;
}

TEST(Greedy, StoriesContinueAsInFloat64) {
  const std::string model = kGolden + "../models/stories260K.gguf";
  NEEDS(model);
  const auto golden = parse_json(read_text_file(kGolden + "stories260K_greedy.json"), "greedy");
  std::vector<std::int32_t> prompt, want;
  for (const auto& [key, value] : golden.items()) {
    if (!value.is_array()) continue;
    (key.find("prompt") != std::string::npos ? prompt : want) = value.get<std::vector<std::int32_t>>();
  }
  ASSERT_FALSE(prompt.empty());
  ASSERT_EQ(want.size(), 60u);
  Engine engine(options_for(model, false, 512, 2), {});
  Request request;
  request.prompt = prompt;
  request.max_tokens = 60;
  request.sampling.temperature = 0;
  Scheduler scheduler(engine, {.running = 1}, "golden");
  EXPECT_EQ(ask(scheduler, {.request = request}).ids, want);
}

// --- law 1, on the bundled model -------------------------------------------------------------------------------------

std::vector<std::int32_t> some_ids(std::size_t n, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < n; ++i)
    ids.push_back(static_cast<std::int32_t>((i * 2654435761u >> 7) % static_cast<std::size_t>(vocab)));
  return ids;
}

TEST(LawOne, ChunksAndThreadsDoNotShow) {
  const auto ids = some_ids(300, 4096);
  const Outcome whole = logits_of(options_for(kDemo, false, 300, 2), ids);
  for (const auto& [chunk, threads] : {std::pair{1, 1}, {1, 2}, {7, 3}, {128, 1}, {129, 2}, {300, 1}, {300, 3}}) {
    const Outcome run = logits_of(options_for(kDemo, false, chunk, threads), ids);
    EXPECT_EQ(0, std::memcmp(run.logits.data(), whole.logits.data(), whole.logits.size() * 4))
        << chunk << " " << threads;
    EXPECT_EQ(run.cache, whole.cache) << chunk << " " << threads;
  }
}

// Many rows of a small quantised model are computed in tiles of 64 rows, each by one thread, if there are at least two
// tiles for each of them: here with one thread and with two, not with three, nor chunk by chunk.
TEST(LawOne, TilesOfRowsDoNotShow) {
  for (const char* type : {"q4_0", "q8_0"}) {
    const kvasir::testing::TemporaryPath file(std::string("tiles-") + type + ".gguf");
    Team team(2);
    model::write_synthetic_model(file.path, model::find_synth_shape("tiny"), type, 1, team, [](auto, auto) {});
    const auto ids = some_ids(300, 256);
    const Outcome whole = logits_of(options_for(file.path, false, 300, 3), ids);
    for (const auto& [chunk, threads] : {std::pair{300, 1}, {300, 2}, {257, 2}, {64, 1}, {65, 1}, {29, 2}, {1, 1}}) {
      const Outcome run = logits_of(options_for(file.path, false, chunk, threads), ids);
      EXPECT_EQ(0, std::memcmp(run.logits.data(), whole.logits.data(), whole.logits.size() * 4))
          << type << " " << chunk << " " << threads;
      EXPECT_EQ(run.cache, whole.cache) << type << " " << chunk << " " << threads;
    }
    // Two sequences in one step share a tile.
    Engine engine(options_for(file.path, false, 512, 2), {.sequences = 2, .logits = 512});
    EXPECT_TRUE(engine.forward().in_tiles()) << type;
    kv::Sequence* a = engine.cache().create();
    kv::Sequence* b = engine.cache().create();
    const model::Input inputs[] = {{a, std::span(ids).subspan(50, 90), 0}, {b, ids, 300}};
    const auto rows = engine.forward().step(inputs);
    ASSERT_EQ(rows.size(), whole.logits.size());
    EXPECT_EQ(0, std::memcmp(rows.data(), whole.logits.data(), rows.size() * 4)) << type;
    EXPECT_EQ(engine.cache().bytes().digest(*b), whole.cache) << type;
  }
}

// Quantised weights take other kernels: integer dots, one column or many.
TEST(LawOne, HoldsForQuantisedWeights) {
  for (const char* type : {"Q4_0", "Q8_0", "Q4_K_M", "Q6_K", "Q2_K"}) {
    const std::string model = kGolden + "quant/llama-gqa-" + type + ".gguf";
    NEEDS(model);
    auto ids = golden_tokens();
    const auto copy = ids;
    ids.insert(ids.end(), copy.begin(), copy.end());
    const Outcome whole = logits_of(options_for(model, false, 192, 2), ids);
    for (const auto& [chunk, threads] : {std::pair{1, 2}, {7, 1}, {128, 3}, {129, 1}}) {
      const Outcome run = logits_of(options_for(model, false, chunk, threads), ids);
      EXPECT_EQ(0, std::memcmp(run.logits.data(), whole.logits.data(), whole.logits.size() * 4))
          << type << " " << chunk;
      EXPECT_EQ(run.cache, whole.cache) << type << " " << chunk;
    }
  }
}

// Every kind of layer: a model of windows whose pages are given back, and the golden models of the project.
std::vector<std::string> law_models() {
  std::vector<std::string> names{"tiny-local", "tiny-experts"};
  for (const GoldenFile& file : golden_files())
    if (file.base.starts_with(kShipped)) names.push_back(std::filesystem::path(file.base).stem().string());
  return names;
}

class LawOneOfModel : public ::testing::TestWithParam<std::string> {
 protected:
  LawOneOfModel() {
    path_ = kShipped + GetParam() + ".gguf";
    if (!GetParam().starts_with("tiny-")) return;
    path_ = written_.path;
    Team team(2);
    model::write_synthetic_model(path_, model::find_synth_shape(GetParam()), "q8_0", 1, team, [](auto, auto) {});
  }
  static EngineOptions options(const std::string& path, int chunk, int threads) {
    EngineOptions o = options_for(path, false, chunk, threads);
    o.ctx = 640;  // learned positions end there
    return o;
  }
  // The rows of a step of one sequence.
  static std::vector<float> feed(Engine& engine, kv::Sequence* s, std::span<const std::int32_t> ids) {
    const auto rows = engine.feed(s, ids, static_cast<int>(ids.size()));
    return {rows.begin(), rows.end()};
  }
  static constexpr std::size_t kTokens = 620;
  const std::vector<std::int32_t> ids_ = some_ids(kTokens, 128);
  std::string path_;

 private:
  const kvasir::testing::TemporaryPath written_{"law-one.gguf"};
};
INSTANTIATE_TEST_SUITE_P(All, LawOneOfModel, ::testing::ValuesIn(law_models()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(LawOneOfModel, ChunksAndThreadsDoNotShow) {
  const Outcome whole = logits_of(options(path_, kTokens, 2), ids_);
  for (const auto& [chunk, threads] : {std::pair{1, 2}, {7, 1}, {128, 3}, {129, 1}, {400, 1}}) {
    const Outcome run = logits_of(options(path_, chunk, threads), ids_);
    EXPECT_EQ(0, std::memcmp(run.logits.data(), whole.logits.data(), whole.logits.size() * 4)) << chunk;
    EXPECT_EQ(run.cache, whole.cache) << chunk;
  }
}

// A fork beside its original, a cut within the last page, and a sequence from its stored pages and tail in another
// engine: all go on with the bits of the first.
TEST_P(LawOneOfModel, ForksCutsAndRestartsDoNotShow) {
  const EngineOptions made = options(path_, kTokens, 2);
  const Outcome whole = logits_of(made, ids_);
  const std::size_t vocab = whole.logits.size() / kTokens;
  const auto expect = [&](const std::vector<float>& rows, std::size_t from, const char* what) {
    ASSERT_LE(from * vocab + rows.size(), whole.logits.size());
    EXPECT_EQ(0, std::memcmp(rows.data(), whole.logits.data() + from * vocab, rows.size() * 4)) << what;
  };
  const auto ids = std::span(ids_);
  Engine engine(made, {.sequences = 3, .logits = kTokens});
  kv::Cache& cache = engine.cache();
  kv::Sequence* a = cache.create();
  expect(feed(engine, a, ids.first(550)), 0, "the beginning");
  kv::Sequence* b = cache.fork(*a);
  const model::Input inputs[] = {{a, ids.subspan(550, 40), 40}, {b, ids.subspan(550, 1), 1}};
  const auto rows = engine.forward().step(inputs);
  expect({rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(40 * vocab)}, 550, "the original");
  expect({rows.begin() + static_cast<std::ptrdiff_t>(40 * vocab), rows.end()}, 550, "the fork");
  cache.truncate(a, 520);
  expect(feed(engine, a, ids.subspan(520)), 520, "a cut");
  EXPECT_EQ(cache.bytes().digest(*a), whole.cache);

  const std::int64_t n = kv::Cache::length(*b);
  std::vector<std::byte> tail(cache.rules().tail_bytes(n));
  cache.bytes().save_tail(*b, n, tail);
  Engine other(made, {.sequences = 1, .logits = kTokens});
  kv::Sequence* c = other.cache().bytes().restore(n, tail);
  for (std::int64_t page = 0; page < cache.rules().sealed_pages(n); ++page) {
    std::vector<std::byte> bytes;
    for (const auto piece : cache.bytes().sealed_page(*b, page)) bytes.insert(bytes.end(), piece.begin(), piece.end());
    other.cache().bytes().fill_page(*c, page, bytes);
  }
  expect(feed(other, c, ids.subspan(551)), 551, "a restart");
  EXPECT_EQ(other.cache().bytes().digest(*c), whole.cache);
  cache.check_integrity();
  other.cache().check_integrity();
}

TEST(LawOne, BatchNeighboursDoNotShow) {
  const auto ids = some_ids(200, 4096);
  const auto other = some_ids(90, 4000);
  EngineOptions o = options_for(kDemo, false, 512, 2);
  const Outcome alone = logits_of(o, ids);
  Engine engine(o, {.sequences = 3, .logits = 512});
  kv::Sequence* a = engine.cache().create();
  kv::Sequence* b = engine.cache().create();
  kv::Sequence* c = engine.cache().create();
  const std::size_t vocab = 4096;
  std::vector<float> got;
  // Prefill of `a` beside decode of `b` and prefill of `c`, then `a` alone with one-token steps of `b`.
  std::size_t at = 0;
  for (const std::size_t n : {50u, 1u, 99u, 1u, 1u, 48u}) {
    const model::Input inputs[] = {{b, std::span(other).subspan(at % 80, 1), 1},
                                   {a, std::span(ids).subspan(at, n), static_cast<int>(n)},
                                   {c, std::span(other).subspan(0, 5), 0}};
    const auto rows = engine.forward().step(inputs);
    ASSERT_EQ(rows.size(), (n + 1) * vocab);
    got.insert(got.end(), rows.begin() + vocab, rows.end());
    at += n;
  }
  ASSERT_EQ(got.size(), alone.logits.size());
  EXPECT_EQ(0, std::memcmp(got.data(), alone.logits.data(), got.size() * 4));
  EXPECT_EQ(engine.cache().bytes().digest(*a), alone.cache);
  engine.cache().check_integrity();
}

TEST(LawOne, InstructionSetsAgree) {
  const auto ids = some_ids(140, 4096);
  const simd::Isa before = simd::active();
  simd::force(simd::Isa::kScalar);
  const Outcome scalar = logits_of(options_for(kDemo, false, 140, 2), ids);
  for (int i = 1; i < simd::kIsaCount; ++i) {
    if (!simd::supported(static_cast<simd::Isa>(i))) continue;
    simd::force(static_cast<simd::Isa>(i));
    const Outcome run = logits_of(options_for(kDemo, false, 140, 2), ids);
    SCOPED_TRACE(std::string(simd::name(static_cast<simd::Isa>(i))));
    if (simd::multiplies_bf16(static_cast<simd::Isa>(i))) {  // the model has F16 weights
      const double error = relative_error(run.logits, scalar.logits);
      EXPECT_GT(error, 0);
      EXPECT_LE(error, 0.02);
      std::printf("%s %.1e\n", std::string(simd::name(static_cast<simd::Isa>(i))).c_str(), error);
      continue;
    }
    EXPECT_EQ(0, std::memcmp(run.logits.data(), scalar.logits.data(), scalar.logits.size() * 4));
    EXPECT_EQ(run.cache, scalar.cache);
  }
  simd::force(before);
}

// Decode agrees with prefill: here to the bit, because both compute in one order.
TEST(LawOne, DecodeAgreesWithTheReferenceLogits) {
  const std::string base = kGolden + "llama-gqa";
  NEEDS(base + ".gguf");
  const Outcome run = logits_of(options_for(base + ".gguf", true, 1, 2), golden_tokens());
  EXPECT_LE(relative_error(run.logits, read_floats(base + ".logits.f32")), 1e-4);
}

}  // namespace golden_test
}  // namespace kvasir::run
