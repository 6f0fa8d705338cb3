// Reuse with layers that have a state: there is no page of it, only what tails have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kv/page.hpp"
#include "model/synth.hpp"
#include "run/reuse_fixture.hpp"
#include "store/redis_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

// A Qwen 3.5 of random weights, five of whose six layers are gated DeltaNet.
class ReuseWithStates : public ::testing::TestWithParam<const char*> {
 protected:
  ReuseWithStates() {
    std::filesystem::create_directories(folder_);
    Team team(2);
    model::write_synthetic_model(model_, model::find_synth_shape("tiny-states"), "q8_0", 1, team, [](auto, auto) {});
  }
  ~ReuseWithStates() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::int32_t> document(const text::Tokenizer& tokenizer, std::size_t from, std::size_t n = 600) {
    const std::vector<std::int32_t> all = tokenizer.encode(read_text_file(kSource + "/docs/results/reasons.md"));
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
    return {begin, begin + static_cast<std::ptrdiff_t>(n)};
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-states-" + std::to_string(getpid());
  const std::string model_ = folder_ + "/model.gguf";
  const std::string disk_ = "lmdb:" + folder_ + "/store?size=512MiB";
};
INSTANTIATE_TEST_SUITE_P(Codecs, ReuseWithStates, ::testing::Values("exact", "balanced"));

TEST_P(ReuseWithStates, RecordedConversationsKeepEveryBit) {
  Server server(GetParam(), {"ram:?size=512MiB"}, {}, model_);
  for (std::size_t c = 0; c < 2; ++c) {
    std::vector<std::int32_t> prompt = document(server.tokenizer(), 1000 * c);
    std::int64_t before = 0;
    for (const auto& turn : turns(server.tokenizer(), 10, 200 * c)) {
      append(prompt, turn);
      const Reply cached = server.ask(prompt, 6, true);
      expect_equal_bits(cached, server.ask(prompt, 6, false));
      EXPECT_GE(cached.outcome.receipt.reused_tokens, before) << prompt.size();
      EXPECT_GT(cached.outcome.receipt.state_bytes, 0u);
      before = static_cast<std::int64_t>(prompt.size());
    }
    EXPECT_GT(before, 900);
  }
}

// A conversation of an agent: a long beginning, then thirty turns of a call, its result and the model's own words.
TEST_P(ReuseWithStates, AnAgentOfThirtyTurnsComputesNothingTwice) {
  Server server(GetParam(), {"ram:?size=1GiB"}, {}, model_);
  std::vector<std::int32_t> prompt = document(server.tokenizer(), 0, 500);
  std::int64_t before = 0, reusable = 0, reused = 0;
  for (std::size_t turn = 0; turn < 30; ++turn) {
    append(prompt, document(server.tokenizer(), 600 + 70 * turn, 10 + turn * 37 % 60));
    const Reply cached = server.ask(prompt, 25, true);
    if (turn % 6 == 5) expect_equal_bits(cached, server.ask(prompt, 25, false));
    reusable += before;
    reused += std::min(cached.outcome.receipt.reused_tokens, before);
    append(prompt, cached.ids());
    before = static_cast<std::int64_t>(prompt.size()) - 1;  // the last token was never fed
  }
  EXPECT_GT(before, 2000);
  EXPECT_GE(static_cast<double>(reused), 0.99 * static_cast<double>(reusable));
  std::printf("%lld of %lld reusable tokens reused\n", static_cast<long long>(reused),
              static_cast<long long>(reusable));
}

// Three lives of a server over one tier: each goes on where the one before ended.
void expect_restarts(const char* kv, const std::string& tier, const std::string& source, const std::string& model,
                     const std::function<std::vector<std::int32_t>(const text::Tokenizer&, std::size_t)>& document) {
  std::vector<std::int32_t> prompt;
  std::int64_t before = 0;
  for (std::size_t life = 0; life < 3; ++life) {
    Server server(kv, {tier}, {}, model);
    append(prompt, document(server.tokenizer(), 700 * life));
    const Reply cached = server.ask(prompt, 5, true);
    expect_equal_bits(cached, server.ask(prompt, 5, false));
    EXPECT_GE(cached.outcome.receipt.reused_tokens, before);
    if (before > 0) {
      EXPECT_EQ(cached.outcome.receipt.spans.front().source, source);
    }
    before = static_cast<std::int64_t>(prompt.size());
    server.flush();
  }
  EXPECT_GT(before, 1200);
}

TEST_P(ReuseWithStates, ARestartFindsWhatIsOnDisk) {
  expect_restarts(GetParam(), disk_, "lmdb", model_,
                  [](const text::Tokenizer& t, std::size_t from) { return document(t, from); });
}

TEST_P(ReuseWithStates, ARestartFindsWhatIsInRedis) {
  if (!store::RedisServer::available()) GTEST_SKIP() << "redis-server is missing (Debian package redis-server)";
  const store::RedisServer redis;
  expect_restarts(GetParam(), "redis:" + redis.address(), "redis", model_,
                  [](const text::Tokenizer& t, std::size_t from) { return document(t, from); });
}

TEST_P(ReuseWithStates, NeighboursDoNotShow) {
  Server server(GetParam(), {"ram:?size=512MiB"}, {}, model_);
  const std::vector<std::int32_t> text = document(server.tokenizer(), 0);
  std::vector<ServiceRequest> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ServiceRequest& r = requests[i];
    r.request.prompt = text;
    r.request.prompt.resize(i % 2 == 0 ? text.size() : 350 + i);
    r.request.prompt.push_back(static_cast<std::int32_t>(300 + i));
    r.request.max_tokens = 30;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
  }
  std::vector<std::shared_ptr<Waiter>> together;
  for (const ServiceRequest& r : requests) together.push_back(server.submit(r));
  std::vector<Reply> replies;
  for (const auto& waiter : together) replies.push_back(waiter->wait());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(replies[i].outcome.error, "");
    expect_equal_bits(replies[i], server.ask(requests[i].request.prompt, 30, false));
  }
}

// One beginning and other questions behind it: the second one starts from a place that was left inside, the third from
// where the first two parted.
TEST_P(ReuseWithStates, ABeginningIsFoundByTheNextQuestion) {
  Server server(GetParam(), {"ram:?size=512MiB"}, {}, model_);
  std::vector<std::int32_t> text = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  text.resize(2400);
  std::vector<std::int64_t> reused;
  for (std::int32_t question = 0; question < 3; ++question) {
    std::vector<std::int32_t> prompt = text;
    for (int i = 0; i < 100; ++i) prompt.push_back(300 + 7 * question + i);
    const Reply cached = server.ask(prompt, 3, true);
    expect_equal_bits(cached, server.ask(prompt, 3, false));
    reused.push_back(cached.outcome.receipt.reused_tokens);
  }
  EXPECT_EQ(reused[0], 0);
  EXPECT_GE(reused[1], 1800);
  EXPECT_EQ(reused[2], 2400);
}

// No conversation is left without a place to restore from: however long its prompts and answers are, and wherever pages
// end, the next turn computes what is new and the last token before it, and the same prompt again its last token.
TEST_P(ReuseWithStates, EveryLengthLeavesAPlaceToGoOnFrom) {
  Server server(GetParam(), {"ram:?size=2GiB"}, {}, model_);
  const std::vector<std::int32_t> all = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  std::mt19937 random(5);
  std::size_t from = 0;
  const int lengths[] = {1,   2,   15,  16,  17,  31,  33,  64,  112, 113, 126,
                         127, 128, 129, 130, 144, 145, 255, 256, 257, 300, 385};
  for (const int length : lengths)
    for (const int answer : {1, 2, 14, 127, 128, 129}) {
      if (random() % 3 != 0 && length > 17) continue;  // a part of them all
      SCOPED_TRACE("prompt " + std::to_string(length) + " answer " + std::to_string(answer));
      from = (from + 391) % (all.size() - 2000);
      std::vector<std::int32_t> prompt(all.begin() + static_cast<std::ptrdiff_t>(from),
                                       all.begin() + static_cast<std::ptrdiff_t>(from) + length);
      prompt[0] = static_cast<std::int32_t>(300 + random() % 600);  // no other begins like it
      const Reply first = server.ask(prompt, answer, true);
      // The same again: all but the last token, which gives the answer's first.
      const Reply again = server.ask(prompt, 1, true);
      EXPECT_EQ(again.outcome.receipt.reused_tokens, length - 1);
      append(prompt, first.ids());
      const auto had = static_cast<std::int64_t>(prompt.size()) - 1;
      append(prompt, {500, 501, 502});
      const Reply next = server.ask(prompt, 2, true);
      // The tail of the prompt that was asked again may have taken the place of that of the answer, when both end
      // within 16 tokens of each other and the prompt's last token begins a page.
      if (length % kv::kPageTokens != 1) {
        EXPECT_EQ(next.outcome.receipt.reused_tokens, had);
      }
      EXPECT_GT(next.outcome.receipt.reused_tokens, had - 16);
      expect_equal_bits(next, server.ask(prompt, 2, false));
    }
}

}  // namespace
}  // namespace kvasir::run
