// The oracle: hashes of logits and of the cache for many models, presets, windows, instruction sets and chunks,
// recorded in oracle.txt. A change that must not change results shows here that it changed no bit.
//
//   KVASIR_ORACLE_RECORD=1 build/dev/oracle_test    writes oracle.txt anew, for a change that must change bits
//   KVASIR_ORACLE_THREADS=2 build/dev/oracle_test   with two threads; the default is one
//
// The text of a case is a prompt, then kGenerated tokens that are told to the cache as generated ones: a fixed
// sequence, so that a small difference of logits cannot choose another text. Pages are sealed in the prompt, and one
// more behind a generated token. By law 1 chunks and threads do not show: one recorded line serves all of them.
//
// The whole product would take half an hour. What is left out: see Subject and `runs_of`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/test_data_fixture.hpp"
#include "run/engine.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::run {
namespace oracle_test {

constexpr std::size_t kGenerated = 12;
constexpr std::size_t kTogether = 3;  // the last of them come in one step, the others one by one
const std::string kSource = std::string(KVASIR_SOURCE_DIR) + "/";
const std::string kFile = kSource + "tests/oracle.txt";

// --- what is compared ------------------------------------------------------------------------------------------------

// Hashes: logits of all prompt tokens, logits of all generated tokens, the cache behind them.
using Hashes = std::array<std::uint64_t, 3>;
constexpr std::array<const char*, 3> kWhat{"logits of the prompt", "logits of generated tokens", "digest of the cache"};

// A line per case: "MODEL PRESET WINDOW SET HASHES", where SET is "every" for what all instruction sets compute, or the
// name of one that has other bits (avx512bf16 with weights of 16 bits).
class Record {
 public:
  Record() {
    if (!std::filesystem::exists(kFile)) return;
    std::istringstream file(read_text_file(kFile));
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string model, preset, window, set;
      Hashes h{};
      words >> model >> preset >> window >> set >> std::hex >> h[0] >> h[1] >> h[2];
      if (!words) throw std::runtime_error(kFile + ": not a case: " + line);
      cases_[key(model + " " + preset + " " + window, set)] = h;
    }
  }

  const Hashes* find(const std::string& name, const std::string& set) const {
    for (const std::string& s : {set, std::string("every")})
      if (const auto found = cases_.find(key(name, s)); found != cases_.end()) return &found->second;
    return nullptr;
  }

  // The first set stands for every one; others are kept where they differ.
  void set(const std::string& name, const std::string& set, const Hashes& hashes) {
    cases_.erase(key(name, set));
    const bool first = fresh_.insert(name).second;
    if (const Hashes* every = find(name, "every"); first || every == nullptr || *every != hashes)
      cases_[key(name, first ? "every" : set)] = hashes;
  }

  void write() const {
    std::string text =
        "# Recorded by KVASIR_ORACLE_RECORD=1 build/dev/oracle_test; see oracle_test.cpp.\n"
        "# model preset window instruction-set prompt-logits generated-logits cache\n";
    for (const auto& [name, h] : cases_) text += fmt::format("{} {:016x} {:016x} {:016x}\n", name, h[0], h[1], h[2]);
    write_file(kFile, std::as_bytes(std::span(text)));
  }

 private:
  static std::string key(const std::string& name, const std::string& set) { return name + " " + set; }
  std::map<std::string, Hashes> cases_;
  std::set<std::string> fresh_;  // recorded by this program
};

Record& record() {
  static Record record;
  return record;
}

// --- what is computed ------------------------------------------------------------------------------------------------

struct Subject {
  const char* name;  // as in oracle.txt
  const char* path;  // from the project's folder, or behind data: from that of the reference data
  bool whole;        // every preset, window and chunk; else two presets without a window
};

std::string path_of(const Subject& subject) {
  const std::string path = subject.path;
  return path.starts_with("data:") ? fixture::test_data(path.substr(5)) : kSource + path;
}

// "reference" is --exact: weights as floats and an f32 cache.
const std::vector<std::string> kAllPresets{"exact", "safe", "rq4", "rq3", "kivi2", "kivi4", "turbo3", "reference"};
const std::vector<std::string> kTwoPresets{"exact", "rq4"};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> list = {
      {"kvasir-books-4m", "models/kvasir-books-4m.gguf", true},
      {"shipped-llama", "tests/golden/llama.gguf", false},
      {"shipped-llama3", "tests/golden/llama3.gguf", false},
      {"shipped-qwen2", "tests/golden/qwen2.gguf", false},
      {"shipped-qwen3", "tests/golden/qwen3.gguf", false},
      {"llama-gqa", "data:golden/llama-gqa.gguf", true},
      {"llama-hd128", "data:golden/llama-hd128.gguf", false},
      {"llama3-rope", "data:golden/llama3-rope.gguf", false},
      {"llama-f16", "data:golden/llama-f16.gguf", false},
      {"qwen2", "data:golden/qwen2.gguf", false},
      {"qwen3", "data:golden/qwen3.gguf", false},
      {"llama-gqa-BF16", "data:golden/quant/llama-gqa-BF16.gguf", false},
      {"llama-gqa-Q2_K", "data:golden/quant/llama-gqa-Q2_K.gguf", false},
      {"llama-gqa-Q3_K_M", "data:golden/quant/llama-gqa-Q3_K_M.gguf", false},
      {"llama-gqa-Q4_0", "data:golden/quant/llama-gqa-Q4_0.gguf", false},
      {"llama-gqa-Q4_1", "data:golden/quant/llama-gqa-Q4_1.gguf", false},
      {"llama-gqa-Q4_K_M", "data:golden/quant/llama-gqa-Q4_K_M.gguf", false},
      {"llama-gqa-Q5_0", "data:golden/quant/llama-gqa-Q5_0.gguf", false},
      {"llama-gqa-Q5_1", "data:golden/quant/llama-gqa-Q5_1.gguf", false},
      {"llama-gqa-Q5_K_M", "data:golden/quant/llama-gqa-Q5_K_M.gguf", false},
      {"llama-gqa-Q6_K", "data:golden/quant/llama-gqa-Q6_K.gguf", false},
  };
  return list;
}

// Two pages and 122 tokens, or one and 122: the sixth generated token fills a page.
std::size_t prompt_of(const Subject& subject) { return subject.whole ? 378 : 250; }

// One cache of a subject, and the chunks in which it gets the prompt.
struct Case {
  std::string preset;
  int window;
  std::vector<std::size_t> chunks;
};

// The scalar set takes seconds for what the others do in a tenth of one, so it gets little.
std::vector<Case> runs_of(const Subject& subject, simd::Isa isa) {
  const std::size_t all = prompt_of(subject);
  if (isa == simd::Isa::kScalar && subject.whole) return {{"exact", 0, {all}}, {"rq4", 128, {all}}};
  if (isa == simd::Isa::kScalar) return {{"rq4", 0, {all}}};
  std::vector<Case> runs;
  for (const std::string& preset : subject.whole ? kAllPresets : kTwoPresets)
    for (const int window : subject.whole ? std::vector{0, 128} : std::vector{0})
      runs.push_back({preset, window, {all}});
  if (subject.whole)
    for (Case& run : runs) run.chunks.push_back(run.window == 0 ? 129 : 1);
  return runs;
}

bool recording() { return std::getenv("KVASIR_ORACLE_RECORD") != nullptr; }

int threads() {
  const char* text = std::getenv("KVASIR_ORACLE_THREADS");
  return text ? std::atoi(text) : 1;
}

EngineOptions options_for(const Subject& subject, const std::string& preset, int window) {
  EngineOptions o;
  o.model = path_of(subject);
  o.exact = preset == "reference";
  if (!o.exact) o.kv = preset;
  o.window = window;
  o.threads = threads();
  o.chunk = static_cast<std::int32_t>(prompt_of(subject));
  o.ctx = 512;
  return o;
}

std::vector<std::int32_t> tokens_of(std::size_t n, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < n; ++i)
    ids.push_back(static_cast<std::int32_t>((i * 2654435761u >> 7) % static_cast<std::size_t>(vocab)));
  return ids;
}

Hashes compute(Engine& engine, std::size_t prompt, std::size_t chunk) {
  const auto ids = tokens_of(prompt + kGenerated, engine.model().spec().vocab);
  kv::Sequence* s = engine.cache().create();
  const auto step = [&](std::size_t at, std::size_t n, bool decode, std::uint64_t& hash) {
    const model::Input input{s, std::span(ids).subspan(at, n), static_cast<int>(n), decode};
    hash = hash_bytes(std::as_bytes(engine.forward().step({&input, 1})), hash);
  };
  Hashes h;
  h.fill(hash_bytes({}));
  for (std::size_t i = 0; i < prompt; i += chunk) step(i, std::min(chunk, prompt - i), false, h[0]);
  for (std::size_t i = 0; i < kGenerated - kTogether; ++i) step(prompt + i, 1, true, h[1]);
  step(prompt + kGenerated - kTogether, kTogether, true, h[1]);
  h[2] = engine.cache().bytes().digest(*s);
  engine.cache().check_integrity();
  engine.cache().release(s);
  return h;
}

// --- the cases -------------------------------------------------------------------------------------------------------

// Parameters: index of the subject, instruction set.
class Oracle : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  const Subject& subject() const { return subjects()[static_cast<std::size_t>(std::get<0>(GetParam()))]; }
  simd::Isa isa() const { return static_cast<simd::Isa>(std::get<1>(GetParam())); }

  void compare(const std::string& name, std::size_t chunk, const Hashes& got) {
    const Hashes* want = record().find(name, std::string(simd::name(isa())));
    if (want == nullptr) {
      ADD_FAILURE() << kFile << " has no case \"" << name << "\": record it with KVASIR_ORACLE_RECORD=1 oracle_test";
      return;
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i] != (*want)[i])
        ADD_FAILURE() << "the " << kWhat[i] << " changed: " << name << ", " << simd::name(isa()) << ", chunks of "
                      << chunk << fmt::format(": {:016x}, recorded {:016x}", got[i], (*want)[i]);
  }
};

TEST_P(Oracle, SameBits) {
  if (!simd::supported(isa())) GTEST_SKIP() << "this machine has no " << simd::name(isa());
  if (simd::name(isa()) == "neonbf16") GTEST_SKIP() << "processors round its dot product each in their own way";
  if (!std::filesystem::exists(path_of(subject()))) GTEST_SKIP() << path_of(subject()) << " is not there";
  const simd::KeepIsa keep;
  simd::force(isa());
  const std::size_t prompt = prompt_of(subject());
  for (const Case& run : runs_of(subject(), isa())) {
    const std::string name = fmt::format("{} {} {}", subject().name, run.preset, run.window);
    Engine engine(options_for(subject(), run.preset, run.window), {.sequences = 1, .logits = static_cast<int>(prompt)});
    for (const std::size_t chunk : run.chunks) {
      const Hashes hashes = compute(engine, prompt, chunk);
      if (recording() && chunk == prompt) record().set(name, std::string(simd::name(isa())), hashes);
      compare(name, chunk, hashes);
    }
  }
  if (recording()) record().write();
}

INSTANTIATE_TEST_SUITE_P(All, Oracle,
                         ::testing::Combine(::testing::Range(0, static_cast<int>(subjects().size())),
                                            ::testing::Range(0, simd::kIsaCount)),
                         [](const auto& p) {
                           std::string name = subjects()[static_cast<std::size_t>(std::get<0>(p.param))].name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + std::string(simd::name(static_cast<simd::Isa>(std::get<1>(p.param))));
                         });

}  // namespace oracle_test
}  // namespace kvasir::run
