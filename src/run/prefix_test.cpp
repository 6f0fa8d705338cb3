// Beginnings whose tokens see each other (HRM-Text's prefix_lm): beside transformers, and as what is kept and shared.
#include "run/prefix.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

const std::string kPrefixModel = kSource + "/tests/golden/hrm_text.gguf";
constexpr std::int32_t kGoldenPrefix = 20;  // of tools/golden_folders.py

std::vector<std::int32_t> golden_ids(std::size_t count) {
  auto ids = nlohmann::json::parse(read_text_file(kSource + "/tests/golden/tokens.json"))["tokens"]
                 .get<std::vector<std::int32_t>>();
  ids.resize(count);
  return ids;
}

// Of a vocabulary of 128.
std::vector<std::int32_t> some_ids(std::uint32_t from, std::size_t count) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>((from + i) * 2654435761u >> 16) % 125 + 3;
  return ids;
}

TEST(Prefix, AgreesWithTransformers) {
  const std::string bytes = read_text_file(kSource + "/tests/golden/folders/hrm_text.prefix.f32");
  std::vector<float> want(bytes.size() / 4);
  std::memcpy(want.data(), bytes.data(), bytes.size());
  const std::size_t count = want.size() / 128;
  EngineOptions o;
  o.model = kPrefixModel;
  o.exact = true;
  o.kv = "f32";
  o.threads = 2;
  o.ctx = 256;
  Engine engine(o, {.sequences = 2, .logits = static_cast<int>(count)});
  Request request{.prompt = golden_ids(count), .runs = {}, .prefix_tokens = kGoldenPrefix};
  const auto logits = [&] {
    const model::Input input{.sequence = engine.cache().create(),
                             .tokens = request.prompt,
                             .logits = static_cast<int>(count),
                             .runs = request.runs};
    const auto rows = engine.forward().step({&input, 1});
    return std::vector<float>(rows.begin(), rows.end());
  };
  const auto apart = [&](const std::vector<float>& got) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    return std::sqrt(error / norm);
  };
  EXPECT_GT(apart(logits()), 0.01);  // every token sees what is before it
  take_prefix(engine, request);
  const double error = apart(logits());
  std::printf("relative error %.1e\n", error);
  EXPECT_LE(error, 1e-4);
}

class PrefixReuse : public ::testing::TestWithParam<const char*> {
 protected:
  ~PrefixReuse() override { std::filesystem::remove_all(folder_); }
  void start(const std::vector<std::string>& tiers = {"ram:?size=64MiB"}, std::int32_t chunk = 512,
             const DraftOptions& drafts = {}) {
    server_.reset();
    server_ = std::make_unique<Server>(
        GetParam(), tiers, store::Wrap{}, kPrefixModel, drafts, [](std::string s) { return s; },
        [&](EngineOptions& o, Engine::Needs&) { o.ctx = 640, o.chunk = chunk; });
  }
  static ServiceRequest request(const std::vector<std::int32_t>& ids, std::int32_t prefix, bool reuse) {
    ServiceRequest r;
    r.request.prompt = ids;
    r.request.prefix_tokens = prefix;
    r.request.max_tokens = 8;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    return r;
  }
  Reply ask(const std::vector<std::int32_t>& ids, std::int32_t prefix, bool reuse) {
    const Reply reply = server_->submit(request(ids, prefix, reuse))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  std::string refused(const std::function<void(ServiceRequest&)>& adjust) {
    ServiceRequest r = request(some_ids(0, 300), 200, true);
    adjust(r);
    try {
      server_->submit(std::move(r))->wait();
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-prefix-" + std::to_string(getpid());
  std::unique_ptr<Server> server_;
};
INSTANTIATE_TEST_SUITE_P(Codecs, PrefixReuse, ::testing::Values("exact", "f16"));

TEST_P(PrefixReuse, IsWholeOrNothing) {
  start();
  const auto instruction = some_ids(0, 200);
  auto prompt = instruction;
  append(prompt, some_ids(900, 60));
  const Reply cold = ask(prompt, 200, false);
  EXPECT_NE(cold.tokens[0].logprob, ask(prompt, 0, false).tokens[0].logprob);
  ask(prompt, 200, true);
  const Reply warm = ask(prompt, 200, true);
  EXPECT_GE(warm.outcome.receipt.reused_tokens, 200);
  expect_equal_bits(warm, cold);
  // Another answer to the same instruction; the same tokens without it; an instruction that ends earlier or later.
  auto other = instruction;
  append(other, some_ids(2000, 40));
  const Reply again = ask(other, 200, true);
  EXPECT_GE(again.outcome.receipt.reused_tokens, 200);
  expect_equal_bits(again, ask(other, 200, false));
  for (const std::int32_t n : {0, 199, 201, -1}) {
    const Reply r = ask(prompt, n, true);
    EXPECT_EQ(r.outcome.receipt.reused_tokens, 0) << n;
    expect_equal_bits(r, ask(prompt, n, false));
  }
  auto changed = prompt;
  changed[199] = changed[199] == 9 ? 10 : 9;  // its last token changes every state
  const Reply cut = ask(changed, 200, true);
  EXPECT_EQ(cut.outcome.receipt.reused_tokens, 0);
  expect_equal_bits(cut, ask(changed, 200, false));
}

TEST_P(PrefixReuse, IsFoundAfterARestartInStepsAndBesideOthers) {
  auto prompt = some_ids(0, 200);
  append(prompt, some_ids(900, 150));
  const std::vector<std::string> disk{"lmdb:" + folder_ + "?size=64MiB"};
  start(disk);
  const Reply cold = ask(prompt, 200, true);
  server_->flush();
  start(disk);
  const Reply warm = ask(prompt, 200, true);
  EXPECT_GE(warm.outcome.receipt.reused_tokens, 256);
  EXPECT_EQ(warm.outcome.receipt.spans.front().source, "lmdb");
  expect_equal_bits(warm, cold);
  start({"ram:?size=64MiB"}, 210);  // steps that end elsewhere, and neighbours, which share what begins alike
  expect_equal_bits(ask(prompt, 200, false), cold);
  for (const bool reuse : {false, true}) {
    std::vector<std::shared_ptr<Waiter>> all;
    for (int i = 0; i < 4; ++i) all.push_back(server_->submit(request(prompt, i == 3 ? 0 : 200, reuse)));
    for (int i = 0; i < 3; ++i) expect_equal_bits(all[static_cast<std::size_t>(i)]->wait(), cold);
    expect_equal_bits(all[3]->wait(), ask(prompt, 0, false));
  }
}

TEST_P(PrefixReuse, DraftsChangeNothing) {
  auto prompt = some_ids(0, 100);
  append(prompt, some_ids(0, 100));
  start();
  const Reply alone = ask(prompt, 150, false);
  DraftOptions drafts;
  drafts.draft = {"lookup"};
  drafts.draft_always = true;
  start({"ram:?size=64MiB"}, 512, drafts);
  expect_equal_bits(ask(prompt, 150, false), alone);
  expect_equal_bits(ask(prompt, 150, true), alone);
}

TEST_P(PrefixReuse, PinsAndWhatIsRefused) {
  start({"ram:?size=64MiB"}, 250);
  ServiceRequest pin = request(some_ids(0, 300), 200, true);
  pin.request.max_tokens = 0;
  pin.pin = true;
  pin.pin_seconds = 60;
  const ServiceRequest same = pin;
  server_->submit(std::move(pin))->wait();
  EXPECT_GT(server_->pinned_bytes(), 0u);
  EXPECT_TRUE(server_->unpin(same));
  EXPECT_EQ(server_->pinned_bytes(), 0u);
  EXPECT_EQ(refused([](ServiceRequest& r) { r.request.prefix_tokens = 301; }),
            "prefix_tokens: is 301, expected at most the prompt's 300 tokens");
  EXPECT_EQ(refused([](ServiceRequest& r) { r.request.prefix_tokens = -1; }),
            "prefix_tokens: is 300, expected at most 246, which fit a step beside answers (see --chunk)");
  EXPECT_EQ(refused([](ServiceRequest& r) { r.request.keep = 4; }),
            "prefix_tokens: is 200, expected 0 where the oldest tokens are left out when the context is full");
  EXPECT_EQ(refused([](ServiceRequest& r) { r.request.prompt_logprobs = true; }),
            "prefix_tokens: is 200, expected 0 where log-probabilities of the prompt are asked for");
  server_ = std::make_unique<Server>(GetParam(), std::vector<std::string>{"ram:?size=64MiB"});
  EXPECT_EQ(refused([](ServiceRequest&) {}),
            "prefix_tokens: is 200, expected 0: every token of this model sees what is before it (no prefix_lm)");
}

}  // namespace
}  // namespace kvasir::run
