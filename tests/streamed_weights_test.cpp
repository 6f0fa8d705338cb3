// Weights that are read while they are used, or mapped, give the bits of weights in memory: every architecture, with
// chunks, threads, forks, cuts, reuse, restarts, drafts and batches; and a disk that fails is an error or slower.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/options.hpp"
#include "model/hparams.hpp"
#include "run/reuse_fixture.hpp"
#include "tiny_model_fixture.hpp"
#include "weights/faulty_reads_fixture.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run {
namespace streamed_weights_test {

using namespace testing;
using kvasir::testing::TemporaryPath;
using weights::testing::Fault;
using weights::testing::FaultyReads;

namespace fs = std::filesystem;

const std::string kShipped = kSource + "/tests/golden/";

struct Way {
  std::string name;
  std::string mode;
  int keep_first = -1, keep_last = -1;
};
const Way kWays[] = {{"full_stream", "full_stream"},
                     {"ffn_only_stream", "ffn_only_stream"},
                     {"partial", "partial_resident", 1, 0},
                     {"mapped", "mapped"}};

EngineOptions options_for(const std::string& model, const std::string& file, const Way* way, int chunk, int threads,
                          bool exact = false) {
  EngineOptions o;
  o.model = model;
  o.exact = exact;
  o.chunk = chunk;
  o.threads = threads;
  o.ctx = 512;
  o.weights_file = file;
  o.weights_mode = way ? way->mode : "full_resident";
  if (way) o.keep_first = way->keep_first, o.keep_last = way->keep_last;
  return o;
}

struct Passes {
  std::vector<float> logits;
  std::uint64_t cache = 0;
  weights::StreamStats stats;
  bool streams = false;
};

// All logits of a text in chunks, then of generated tokens on a fork, and of the text cut and gone on with.
Passes run_through(const EngineOptions& o, const std::vector<std::int32_t>& ids) {
  Engine engine(o, {.sequences = 3, .logits = o.chunk});
  kv::Cache& cache = engine.cache();
  kv::Sequence* s = cache.create();
  Passes run;
  const auto add = [&](std::span<const float> rows) { run.logits.insert(run.logits.end(), rows.begin(), rows.end()); };
  for (std::size_t i = 0; i < ids.size(); i += static_cast<std::size_t>(o.chunk)) {
    const std::size_t n = std::min(ids.size() - i, static_cast<std::size_t>(o.chunk));
    add(engine.feed(s, std::span(ids).subspan(i, n), static_cast<int>(n)));
  }
  kv::Sequence* fork = cache.fork(*s);
  for (int i = 0; i < 3; ++i) add(engine.decode(fork, ids[static_cast<std::size_t>(i)]));
  const std::int64_t shorter = kv::Cache::length(*fork) - 2;
  if (cache.rules().can_truncate(*fork, shorter)) {
    cache.truncate(fork, shorter);
    add(engine.decode(fork, ids[7]));
  }
  const model::Input both[] = {{.sequence = s, .tokens = {&ids[3], 1}, .decode = true},
                               {.sequence = fork, .tokens = {&ids[4], 1}, .decode = true}};
  add(engine.forward().step(both));
  run.cache = cache.bytes().digest(*s) ^ 3 * cache.bytes().digest(*fork);
  cache.check_integrity();
  run.stats = engine.model().layers().stats();
  run.streams = engine.model().layers().streams();
  return run;
}

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kShipped))
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class StreamedGolden : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, StreamedGolden, ::testing::ValuesIn(golden_models()), [](const auto& model) {
  std::string name = model.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST_P(StreamedGolden, HasTheBitsOfWeightsInMemory) {
  const std::string model = kShipped + GetParam() + ".gguf";
  if (!model::read_spec(*weights::open_model_file(model)).causal) GTEST_SKIP() << "an encoder";
  auto ids =
      parse_json(read_text_file(kShipped + "tokens.json"), "tokens.json")["tokens"].get<std::vector<std::int32_t>>();
  ids.resize(std::min<std::size_t>(ids.size(), 150));
  const Passes wanted = run_through(options_for(model, "", nullptr, 64, 2), ids);
  EXPECT_FALSE(wanted.streams);
  const TemporaryPath file("packed");
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    const Passes run = run_through(options_for(model, file.path, &way, 64, way.name == "mapped" ? 1 : 2), ids);
    EXPECT_EQ(run.logits, wanted.logits);
    EXPECT_EQ(run.cache, wanted.cache);
    EXPECT_EQ(run.stats.restarts, 0u);
    if (way.name == "full_stream") {
      EXPECT_TRUE(run.streams);
      EXPECT_GT(run.stats.bytes_read, 0u);
    }
  }
}

class Books : public ::testing::Test {
 protected:
  Books() : file_("packed-books") {}
  // A server with its weights streamed; what a disk does is `fault`.
  Server server(const std::string& kv, const std::vector<std::string>& tiers, const std::string& mode,
                const DraftOptions& drafts = {}) {
    const auto same = [](std::string text) { return text; };
    return Server(kv, tiers, {}, kBooks, drafts, same, [&](EngineOptions& o, Engine::Needs& needs) {
      o.weights_mode = mode;
      o.weights_file = file_.path;
      needs.wrap_reads = [this](std::unique_ptr<weights::Reads> reads) {
        return std::make_unique<FaultyReads>(std::move(reads),
                                             [this](const weights::ReadRequest&) { return fault_.load(); });
      };
    });
  }
  std::vector<std::int32_t> prompt(const Server& s, std::size_t n, std::size_t from = 0) const {
    const auto all = s.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
    return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(from + n)};
  }
  const TemporaryPath file_;
  std::atomic<Fault::Kind> fault_{Fault::Kind::kNone};
};

TEST_F(Books, ReuseRestartAndBatchHaveTheSameBits) {
  for (const std::string kv : {"balanced", "exact"}) {
    const TemporaryPath folder("streamed-store-" + kv);
    Server plain(kv, {}, {}, kBooks);
    const auto first = prompt(plain, 500), second = prompt(plain, 300, 2000);
    const Reply a = plain.ask(first, 20, false), b = plain.ask(second, 20, false);
    const std::vector<std::string> tiers{"lmdb:" + folder.path + "?size=200MiB"};
    {
      Server streamed = server(kv, tiers, "full_stream");
      EXPECT_TRUE(streamed.model().layers().streams());
      const Reply got = streamed.ask(first, 20, true);
      expect_equal_bits(got, a);
      EXPECT_GT(got.outcome.weights.bytes_read, 0u);
      EXPECT_GT(got.outcome.weights.blocks, 0u);
      streamed.flush();
      const Reply again = streamed.ask(first, 20, true);
      expect_equal_bits(again, a);
      EXPECT_GT(again.outcome.receipt.reused_tokens, 400);
      streamed.flush();
    }
    Server restarted = server(kv, tiers, "ffn_only_stream");
    const Reply again = restarted.ask(first, 20, true);
    expect_equal_bits(again, a);
    EXPECT_GT(again.outcome.receipt.reused_tokens, 400);
    // Both at once.
    const auto ask = [&](const std::vector<std::int32_t>& ids) {
      ServiceRequest r;
      r.request.prompt = ids;
      r.request.max_tokens = 20;
      r.request.sampling.temperature = 0;
      r.request.ignore_eos = true;
      r.request.top_logprobs = 5;
      r.reuse = false;
      return restarted.submit(std::move(r));
    };
    const auto one = ask(first), other = ask(second);
    expect_equal_bits(one->wait(), a);
    expect_equal_bits(other->wait(), b);
  }
}

TEST_F(Books, OneSweepVerifiesSeveralTokens) {
  const DraftOptions drafts{.draft = {"lookup"}, .draft_tokens = 6, .draft_always = true};
  Server plain("balanced", {}, {}, kBooks);
  const auto ids = prompt(plain, 400);
  const Reply wanted = plain.ask(ids, 80, false);
  Server resident("balanced", {}, {}, kBooks, drafts);
  Server streamed = server("balanced", {}, "full_stream", drafts);
  const Reply memory = resident.ask(ids, 80, false), disk = streamed.ask(ids, 80, false);
  EXPECT_EQ(disk.ids(), wanted.ids());
  EXPECT_EQ(memory.ids(), wanted.ids());
  EXPECT_EQ(disk.outcome.draft.steps, memory.outcome.draft.steps) << "tokens per sweep as in memory";
  EXPECT_LT(disk.outcome.draft.steps, 80);
}

TEST_F(Books, AFailingDiskFailsTheRequestsOfItsStepAndNoMore) {
  Server plain("balanced", {}, {}, kBooks);
  const auto ids = prompt(plain, 300);
  const Reply wanted = plain.ask(ids, 12, false);
  for (const Fault::Kind kind : {Fault::Kind::kError, Fault::Kind::kEnd, Fault::Kind::kFlip}) {
    Server s = server("balanced", {"ram:?size=64MiB"}, "full_stream");
    expect_equal_bits(s.ask(ids, 12, true), wanted);
    s.flush();
    fault_ = kind;
    ServiceRequest r;
    r.request.prompt = ids;
    r.request.max_tokens = 12;
    r.request.sampling.temperature = 0;
    r.reuse = true;
    const Reply failed = s.submit(std::move(r))->wait();
    EXPECT_EQ(failed.outcome.failure, Failure::kWeights);
    EXPECT_NE(failed.outcome.error.find(file_.path), std::string::npos) << failed.outcome.error;
    fault_ = Fault::Kind::kNone;
    expect_equal_bits(s.ask(ids, 12, true), wanted);
    expect_equal_bits(s.ask(ids, 12, false), wanted);
    EXPECT_EQ(s.stats().failed, 1u);
  }
}

TEST_F(Books, ShortAndSlowReadsChangeNothing) {
  Server plain("balanced", {}, {}, kBooks);
  const auto ids = prompt(plain, 200);
  const Reply wanted = plain.ask(ids, 6, false);
  for (const Fault::Kind kind : {Fault::Kind::kShort, Fault::Kind::kSlow}) {
    Server s = server("balanced", {}, "full_stream");
    fault_ = kind;
    const Reply got = s.ask(ids, 6, false);
    expect_equal_bits(got, wanted);
    if (kind == Fault::Kind::kSlow) {
      EXPECT_GT(got.outcome.weights.stall_seconds, 0);
    }
    fault_ = Fault::Kind::kNone;
  }
}

// A step that fails leaves the cache whole: other sequences go on, and the failed one is empty.
TEST_F(Books, AStepThatFailsIsGivenUpWhole) {
  EngineOptions o = options_for(kBooks, file_.path, &kWays[0], 64, 2);
  Engine engine(o, {.sequences = 2, .wrap_reads = [this](std::unique_ptr<weights::Reads> reads) {
                      return std::make_unique<FaultyReads>(
                          std::move(reads), [this](const weights::ReadRequest&) { return fault_.load(); });
                    }});
  const auto ids = engine.tokenizer()->encode(read_text_file(kSource + "/README.md"));
  kv::Sequence *kept = engine.cache().create(), *lost = engine.cache().create();
  engine.feed(kept, std::span(ids).first(200));
  engine.feed(lost, std::span(ids).first(100));
  const std::uint64_t before = engine.cache().bytes().digest(*kept);
  fault_ = Fault::Kind::kError;
  int errors = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      engine.decode(lost, 5);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kIo);
      ++errors;
    }
  }
  EXPECT_GT(errors, 0);
  fault_ = Fault::Kind::kNone;
  engine.cache().check_integrity();
  EXPECT_EQ(engine.cache().bytes().digest(*kept), before);
  engine.cache().release(lost);
  lost = engine.cache().create();
  engine.feed(lost, std::span(ids).first(200));
  EXPECT_EQ(engine.cache().bytes().digest(*lost), before);
}

TEST_F(Books, ADamagedFileOrAnotherModelsIsRefused) {
  const auto open = [&](const std::string& model, const Way& way) -> std::string {
    try {
      Engine engine(options_for(model, file_.path, &way, 64, 1), {});
      const std::int32_t ids[] = {1, 2, 3};
      engine.feed(engine.cache().create(), ids);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_EQ(open(kBooks, kWays[0]), "");
  const std::string other = open(kShipped + golden_models().front() + ".gguf", kWays[0]);
  EXPECT_NE(other.find(file_.path), std::string::npos) << other;
  EXPECT_NE(other.find("another model"), std::string::npos) << other;
  const auto size = fs::file_size(file_.path);
  for (const Way& way : kWays)
    for (const double part : {0.3, 0.6, 0.9}) {
      const auto at = static_cast<std::streamoff>(part * static_cast<double>(size));
      const auto flip = [&] {
        std::fstream f(file_.path, std::ios::in | std::ios::out | std::ios::binary);
        f.seekg(at);
        const char c = static_cast<char>(f.get() ^ 1);
        f.seekp(at);
        f.put(c);
      };
      flip();
      const std::string error = open(kBooks, way);
      EXPECT_NE(error.find("damaged"), std::string::npos) << way.name << " " << part << ": " << error;
      EXPECT_NE(error.find(file_.path), std::string::npos) << error;
      flip();
    }
  EXPECT_EQ(open(kBooks, kWays[0]), "");
  fs::resize_file(file_.path, size - 4096);
  EXPECT_NE(open(kBooks, kWays[1]), "");
}

TEST_F(Books, NoMoreMemoryThanAllowedAndRefusedWhenItCannotBe) {
  EngineOptions o = options_for(kBooks, file_.path, nullptr, 64, 1);
  o.weights_mode = "auto";
  std::int64_t all = 0;
  {
    Engine engine(o, {});
    all = engine.model().weight_bytes();
    EXPECT_FALSE(engine.model().layers().streams());
  }
  int refused = 0, streamed = 0;
  for (int tenth = 1; tenth <= 10; ++tenth) {
    o.weights_memory = std::to_string(all * tenth / 10);
    try {
      Engine engine(o, {});
      EXPECT_LE(engine.model().weight_bytes(), all * tenth / 10 + 2 * weights::kBlockAlign) << tenth;
      streamed += engine.model().layers().streams();
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(e.code(), Code::kMemory);
      EXPECT_EQ(e.context(), "--weights-memory");
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(streamed, 1);
  o.weights_memory = "much";
  EXPECT_THROW(Engine(o, {}), Error);
}

}  // namespace streamed_weights_test
}  // namespace kvasir::run
