#include "client/load.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/descriptors.hpp"
#include "client/remote_target.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::client {
namespace {

Endpoint endpoint(std::uint16_t port) { return parse_endpoint(fmt::format("http://127.0.0.1:{}", port), "--url"); }

LoadReport load(const Endpoint& where, std::int32_t clients, const LoadOptions& options) {
  return run_load(where, model_of(where), clients, options, [](std::int64_t, std::int64_t) { return true; });
}

TEST(Load, EveryRequestIsCounted) {
  serve::TestServer s({.delay = 0.001});
  const LoadReport r = load(endpoint(s.port()), 20, {.requests = 100, .prompt_tokens = 40, .tokens = 12});
  EXPECT_EQ(r.completed, 100);
  EXPECT_EQ(r.refused + r.failed + r.dropped, 0);
  EXPECT_TRUE(r.errors.empty());
  EXPECT_EQ(r.completion_tokens, 1200);
  EXPECT_EQ(r.ttft.size(), 100u);
  EXPECT_EQ(r.gaps.size(), 1100u);
  EXPECT_EQ(r.whole.size(), 100u);
  EXPECT_GT(r.client_fairness, 0.8);
  EXPECT_GT(r.memory_before, 0u);
  EXPECT_GE(r.memory_most, r.memory_before);
  EXPECT_GE(r.connections, 20);
  EXPECT_GT(r.tokens_per_second(), 0);
  const double mean = static_cast<double>(r.prompt_tokens) / 100;
  EXPECT_GT(mean, 25);  // what words are worth is measured
  EXPECT_LT(mean, 60);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const auto& request : s.service.requests()) prompts.push_back(request.request.prompt);
  std::sort(prompts.begin(), prompts.end());
  EXPECT_EQ(std::unique(prompts.begin(), prompts.end()), prompts.end()) << "prompts differ";
}

TEST(Load, PromptsBeginAlikeIfAsked) {
  serve::TestServer s;
  load(endpoint(s.port()), 1, {.requests = 3, .prompt_tokens = 60, .shared_tokens = 40, .tokens = 1});
  const auto requests = s.service.requests();
  ASSERT_EQ(requests.size(), 4u);  // the first one measured words
  const auto& a = requests[1].request.prompt;
  const auto& b = requests[2].request.prompt;
  const auto common = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  EXPECT_GT(common, 25);
  EXPECT_LT(common, 55);
}

TEST(Load, RefusalsAreNeitherErrorsNorDrops) {
  serve::TestServer s({.delay = 0.02, .most_queued = 3});
  const LoadReport r = load(endpoint(s.port()), 12, {.requests = 12, .tokens = 10});
  EXPECT_EQ(r.completed + r.refused, 12);
  EXPECT_GE(r.completed, 3);
  EXPECT_GE(r.refused, 1);
  EXPECT_EQ(r.failed + r.dropped, 0);
  ASSERT_EQ(r.errors.size(), 1u);
  EXPECT_TRUE(r.errors.begin()->first.starts_with("429")) << r.errors.begin()->first;
  EXPECT_EQ(r.refusals.size(), static_cast<std::size_t>(r.refused));
}

TEST(Load, ErrorsHaveTheirKind) {
  serve::TestServer s({.fail = "broken"});
  const Endpoint where = endpoint(s.port());
  const std::string file = testing::TempDir() + "load_test.jsonl";
  std::ofstream(file) << R"({"turns": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
                      << "\n";
  const LoadReport r = load(where, 2, {.requests = 4, .tokens = 3, .conversations = file});
  EXPECT_EQ(r.failed, 4);
  EXPECT_EQ(r.completed, 0);
  EXPECT_EQ(r.errors.at("in a stream generation_failed"), 4);
}

TEST(Load, AnAnswerThatEndsInTheMiddleIsDropped) {
  serve::TestServer s({.delay = 0.05}, {.request_timeout = 0});
  std::thread ends([&] {
    EXPECT_TRUE(serve::eventually([&] { return s.service.requests().size() >= 5; }));
    s.server.stop();
    s.server.stop();
  });
  const LoadReport r = load(endpoint(s.port()), 4, {.requests = 4, .tokens = 100000});
  ends.join();
  s.join();
  EXPECT_EQ(r.completed, 0);
  EXPECT_EQ(r.dropped + r.failed + r.refused, 4);
}

TEST(Load, ConversationsGoOnWithTheServersAnswers) {
  serve::TestServer s({.script = {"a", "b"}});  // what its tokens spell: answers come back as tokens
  const std::string file = testing::TempDir() + "load_test.jsonl";
  std::ofstream(file)
      << R"({"turns": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "recorded"},)"
      << R"({"role": "user", "content": "two"}]})"
      << "\n";
  const LoadReport r = load(endpoint(s.port()), 1, {.requests = 3, .tokens = 2, .conversations = file});
  EXPECT_EQ(r.completed, 3);
  const auto requests = s.service.requests();
  ASSERT_EQ(requests.size(), 3u);
  const auto text = [&](std::size_t i) { return s.service.tokenizer()->decode(requests[i].request.prompt); };
  EXPECT_NE(text(1).find("two"), std::string::npos);
  EXPECT_NE(text(1).find("assistant: ab"), std::string::npos) << text(1);
  EXPECT_EQ(text(1).find("recorded"), std::string::npos);
  EXPECT_EQ(text(2), text(0)) << "then from the beginning";
}

TEST(Load, WhatIsNotThere) {
  const Endpoint nobody = parse_endpoint("http://127.0.0.1:1", "--url");
  EXPECT_THROW(model_of(nobody), Error);
  serve::TestServer s;
  EXPECT_EQ(model_of(endpoint(s.port())), "org/fake-model");
  EXPECT_THROW(load(endpoint(s.port()), 1, {.conversations = "/no/such/file"}), Error);
}

TEST(Load, StopsWhenAsked) {
  serve::TestServer s({.delay = 0.01});
  const Endpoint where = endpoint(s.port());
  const LoadReport r = run_load(where, model_of(where), 8, {.requests = 1000, .tokens = 100000},
                                [](std::int64_t, std::int64_t) { return false; });
  EXPECT_EQ(r.completed + r.dropped, 0);
  EXPECT_TRUE(serve::eventually([&] { return s.service.cancelled() == 8; }));
}

TEST(Load, JainsIndex) {
  EXPECT_DOUBLE_EQ(jain_index({}), 1);
  EXPECT_DOUBLE_EQ(jain_index({3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(jain_index({1, 0, 0, 0}), 0.25);
}

TEST(Load, ReplayOverHttp) {
  serve::TestServer s({.reused = 5});
  lab::ReplayOptions options{.conversations = testing::TempDir() + "replay_test.jsonl", .max_tokens = 3};
  std::ofstream(options.conversations) << R"({"turns": [{"role": "user", "content": "one"}, {"role": "assistant",)"
                                       << R"("content": "yes"}, {"role": "user", "content": "two"}]})"
                                       << "\n";
  const auto target = remote_target(endpoint(s.port()), "org/fake-model", options);
  const auto turns = lab::replay(*target, options, [](std::int64_t, std::int64_t) { return true; });
  ASSERT_EQ(turns.size(), 2u);
  for (const lab::ReplayTurn& t : turns) {
    EXPECT_EQ(t.ttft.size(), 1u);
    EXPECT_EQ(t.plain_ttft.size(), 1u);
    EXPECT_EQ(t.reused_tokens, 5);
    EXPECT_EQ(t.reusable_tokens, -1);
    EXPECT_EQ(t.same_bits, -1);
    EXPECT_EQ(t.same_text, 1);
  }
  const lab::ReplayTurn all = lab::overall(turns);
  EXPECT_EQ(all.turn, 0);
  EXPECT_EQ(all.ttft, (std::vector<float>{turns[0].ttft[0], turns[1].ttft[0]}));
  EXPECT_EQ(all.prompt_tokens, turns[0].prompt_tokens + turns[1].prompt_tokens);
  EXPECT_EQ(all.reused_tokens, 10);
  EXPECT_EQ(all.reusable_tokens, -1);
  EXPECT_EQ(all.same_text, 2);
  ASSERT_EQ(all.seconds.size(), 2u);
  EXPECT_GE(all.seconds[0], all.ttft[0]);
  const auto requests = s.service.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_TRUE(requests[2].reuse);
  EXPECT_FALSE(requests[3].reuse);
  EXPECT_THROW(target->reopen(), Error);
}

}  // namespace
}  // namespace kvasir::client
