// What evaluators and editors ask: log-probabilities of a prompt, gaps in texts, and progress while a prompt is
// computed.
#include <gtest/gtest.h>

#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"
#include "serve/conversation_fixture.hpp"

namespace kvasir::serve {
namespace {

const Json kScore{{"prompt", {97, 98, 99}}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 1}, {"temperature", 0}};

TEST(Server, EchoHasThePromptsLogprobs) {
  TestServer s;
  const Reply r = s.post("/v1/completions", kScore);
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_TRUE(s.service.requests().at(0).request.prompt_logprobs);
  const Json choice = r.json()["choices"][0];
  EXPECT_EQ(choice["text"], "abcw0 ");
  const Json& l = choice["logprobs"];
  EXPECT_EQ(l["tokens"].dump(), R"(["a","b","c","a"])");
  EXPECT_EQ(l["token_logprobs"].dump(), "[null,-0.25,-0.5,-0.5]");
  EXPECT_EQ(l["text_offset"].dump(), "[0,1,2,3]");
  EXPECT_TRUE(l["top_logprobs"][0].is_null());
  EXPECT_EQ(l["top_logprobs"][1].dump(), R"({"a":-0.125})");
}

TEST(Server, EchoWithoutAnAnswerIsThePromptAlone) {
  TestServer s;
  const Json choice = s.post("/v1/completions", with(kScore, {{"max_tokens", 0}})).json()["choices"][0];
  EXPECT_EQ(choice["text"], "abc");
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].dump(), "[null,-0.25,-0.5]");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST(Server, SeveralPromptsAreScoredEach) {
  TestServer s;
  const Json body = s.post("/v1/completions", with(kScore, {{"prompt", {{97, 98}, {99, 100, 101}}}})).json();
  EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"].size(), 3u);
  EXPECT_EQ(body["choices"][1]["logprobs"]["token_logprobs"].size(), 4u);
  EXPECT_FALSE(s.post("/v1/completions", with(kScore, {{"echo", false}})).json()["choices"][0]["logprobs"].is_null());
  EXPECT_FALSE(s.service.requests().back().request.prompt_logprobs);
}

TEST(Server, AStreamedEchoBringsThemFirst) {
  TestServer s;
  const auto events = events_of(s.post("/v1/completions", with(kScore, {{"stream", true}})).body);
  EXPECT_EQ(events[0]["choices"][0]["text"], "abc");
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["token_logprobs"].dump(), "[null,-0.25,-0.5]");
  EXPECT_EQ(events[1]["choices"][0]["text"], "w0 ");
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"].dump(), "[3]");
}

// The BOS that the server puts in front has a log-probability and no text.
TEST(Server, OffsetsAreThoseOfTheEchoedText) {
  TestServer s;
  const Json l = s.post("/v1/completions", with(kScore, {{"prompt", "ab"}})).json()["choices"][0]["logprobs"];
  const bool bos = s.service.tokenizer()->add_bos();
  EXPECT_EQ(l["text_offset"].dump(), bos ? "[0,0,1,2]" : "[0,1,2]");
}

TEST(Server, GapsAreFilled) {
  TestServer s({.fills_gaps = true});
  const Json body{{"input_prefix", "a"}, {"prompt", "b"}, {"input_suffix", "c"}, {"n_predict", 2}};
  const Reply r = s.post("/infill", body);
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.json()["content"], "w0 w1 ");
  EXPECT_EQ(r.json()["stop_type"], "limit");
  EXPECT_EQ(r.json()["tokens_predicted"], 2);
  const auto prompt = s.service.requests().at(0).request.prompt;
  EXPECT_EQ(std::vector(prompt.end() - 6, prompt.end()), (std::vector<std::int32_t>{1, 'a', 'b', 2, 'c', 3}));
  EXPECT_FLOAT_EQ(s.service.requests().at(0).request.sampling.temperature, 0.8f);
  const Reply streamed = s.post("/infill", with(body, {{"stream", true}}));
  EXPECT_EQ(streamed.body.find("[DONE]"), std::string::npos);
  EXPECT_TRUE(streamed.body.starts_with(R"(data: {"index":0,"content":"w0 ","stop":false)")) << streamed.body;
  for (const auto& [path, more] :
       {std::pair{"/v1/completions", Json{{"suffix", "c"}}},
        {"/api/generate", Json{{"suffix", "c"}, {"model", "org/fake-model"}, {"stream", false}}}}) {
    EXPECT_EQ(s.post(path, with({{"prompt", "ab"}}, more)).status, 200) << path;
    EXPECT_EQ(s.service.requests().back().request.prompt, prompt) << path;
  }
}

TEST(Server, AModelWithoutTokensForGapsSaysSo) {
  TestServer s;
  const Reply r = s.post("/infill", {{"input_prefix", "a"}, {"input_suffix", "c"}});
  EXPECT_EQ(r.status, 400);
  EXPECT_NE(r.body.find("cannot fill gaps"), std::string::npos) << r.body;
  EXPECT_EQ(s.post("/v1/completions", {{"prompt", "a"}, {"suffix", "c"}}).status, 400);
  EXPECT_EQ(s.post("/completion", {{"prompt", "a"}, {"n_predict", 1}}).json()["content"], "w0 ");
}

TEST(Server, ProgressIsSaidToWhoAsks) {
  TestServer s({.reused = 4, .prefill_steps = 3});
  const auto events =
      events_of(s.post("/v1/chat/completions", with(kChatBody, {{"stream", true}, {"return_progress", true}})).body);
  std::vector<Json> progress;
  for (const Json& e : events)
    if (e.contains("prompt_progress")) progress.push_back(e["prompt_progress"]);
  ASSERT_EQ(progress.size(), 3u);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(progress[0]["cache"], 4);
  EXPECT_GT(progress[1]["processed"], progress[0]["processed"]);
  EXPECT_EQ(progress[2]["processed"], progress[2]["total"]);
  EXPECT_EQ(progress[2]["remaining_ms"], 0);
  EXPECT_TRUE(progress[0].contains("time_ms"));
  for (const Json& e : events_of(s.post("/v1/chat/completions", with(kChatBody, {{"stream", true}})).body))
    EXPECT_FALSE(e.contains("prompt_progress"));
}

// Without being asked, in the dialects that have an event for it, about once a second.
TEST(Server, LongPromptsGiveEventsInEachDialect) {
  TestServer s({.prefill_steps = 3, .prefill_delay = 1.05});  // message_start comes with the first
  const Json messages = kChatBody["messages"];
  const auto answer = [&](const char* path, const Json& body) {
    return s.post(path, with(body, {{"stream", true}})).body;
  };
  const std::string anthropic = answer("/v1/messages", {{"messages", messages}, {"max_tokens", 2}});
  const std::size_t start = anthropic.find("message_start"), ping = anthropic.find("event: ping");
  EXPECT_LT(start, ping);
  ASSERT_NE(ping, std::string::npos) << anthropic;
  EXPECT_NE(anthropic.find(R"("processed":)", ping), std::string::npos);
  const std::string responses = answer("/v1/responses", {{"input", "hello"}});
  const std::size_t first = responses.find("event: response.in_progress");
  const std::size_t second = responses.find("event: response.in_progress", first + 1);
  ASSERT_NE(second, std::string::npos) << responses;
  EXPECT_NE(responses.find(R"("prompt_progress")", second), std::string::npos);
  const std::string chats = answer("/v1/chat/completions", kChatBody);
  EXPECT_EQ(chats.find("prompt_progress"), std::string::npos);
}

TEST(Server, BudgetsReachTheSamplerAndTheReceipt) {
  const TemplateChat thinks = thinking_chat();
  TestServer s({.thinking_tokens = 3}, {}, false, &thinks);
  const Json body = s.post("/v1/chat/completions", with(kChatBody, {{"thinking_budget", 3}})).json();
  EXPECT_EQ(body["kvasir"]["thinking_cut"], 3);
  const run::ThinkingBudget budget = s.service.requests().at(0).request.thinking;
  EXPECT_EQ(budget.most, 3);
  EXPECT_FALSE(budget.inside);
  EXPECT_EQ(s.service.tokenizer()->decode(budget.closing), "\n</think>\n\n");
  TestServer plain;
  const Json unheld = plain.post("/v1/chat/completions", with(kChatBody, {{"thinking_budget", 3}})).json();
  EXPECT_NE(dump(unheld["kvasir"]["warnings"]).find("budget"), std::string::npos);
}

TEST(Server, AConversationBeyondTheContextIsCutOnRequest) {
  TestServer s({.context = 200});
  Json messages = Json::array();
  for (int i = 0; i < 9; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(40, 'x')}});
  const Json body = with(kChatBody, {{"messages", messages}, {"max_tokens", 20}});
  EXPECT_EQ(s.post("/v1/chat/completions", body).status, 400);
  const Reply r = s.post("/v1/chat/completions", with(body, {{"context_shift", true}}));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_GT(r.json()["kvasir"]["context_shift"]["dropped_messages"], 0);
  EXPECT_EQ(s.service.requests().at(0).request.keep, s.service.tokenizer()->add_bos() ? 1 : 0);
  EXPECT_EQ(s.post("/v1/responses", {{"input", messages}, {"truncation", "auto"}, {"max_output_tokens", 5}}).status,
            200);
}

}  // namespace
}  // namespace kvasir::serve
