// Chats and completions: the shape of every answer, against documented objects of the OpenAI API.
#include <gtest/gtest.h>

#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::serve {
namespace {

// Removes what differs from run to run.
Json settled(Json json) {
  for (const char* key : {"id", "created", "system_fingerprint", "kvasir"}) json.erase(key);
  return json;
}

TEST(Server, PlainChat) {
  TestServer s({.reused = 7});
  const Reply r = s.post("/v1/chat/completions", kChatBody);
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.header("content-type"), "application/json");
  EXPECT_TRUE(r.header("x-request-id").starts_with("req-"));
  const Json body = r.json();
  const Json expected = Json::parse(R"({
    "object": "chat.completion", "model": "org/fake-model",
    "choices": [{"index": 0,
      "message": {"role": "assistant", "content": "w0 w1 w2 w3 w4 ", "refusal": null},
      "logprobs": null, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 0, "completion_tokens": 5, "total_tokens": 5,
              "prompt_tokens_details": {"cached_tokens": 7}}})");
  Json found = settled(body);
  const auto prompt = s.service.requests().at(0).request.prompt.size();
  EXPECT_EQ(found["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(found["usage"]["total_tokens"], prompt + 5);
  found["usage"]["prompt_tokens"] = 0;
  found["usage"]["total_tokens"] = 5;
  EXPECT_EQ(found.dump(1), expected.dump(1));
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["kvasir"]["reused_tokens"], 7);
  EXPECT_EQ(body["kvasir"]["spans"][0].dump(), R"({"begin":0,"end":7,"source":"ram"})");
  EXPECT_EQ(body["kvasir"]["spans"][1]["source"], "computed");
  EXPECT_EQ(body["kvasir"]["miss"], "the prompt ended");
}

TEST(Server, ChatDefaultsAreTheOpenAiApis) {
  TestServer s;
  ASSERT_EQ(s.post("/v1/chat/completions", kChatBody).status, 200);
  const run::ServiceRequest r = s.service.requests().at(0);
  EXPECT_EQ(r.request.sampling.temperature, 1);
  EXPECT_EQ(r.request.sampling.top_p, 1);
  EXPECT_EQ(r.request.sampling.top_k, 0);
  EXPECT_EQ(r.request.sampling.min_p, 0);
  EXPECT_EQ(r.request.sampling.repetition_penalty, 1);
  EXPECT_EQ(r.request.sampling.seed, -1);
  EXPECT_EQ(r.request.max_tokens, -1);
  EXPECT_EQ(r.request.top_logprobs, -1);
  EXPECT_TRUE(r.reuse);
  EXPECT_FALSE(r.pin);
  EXPECT_EQ(r.tenant, "");
  // The template wrote BOS: it is that token, once.
  EXPECT_EQ(r.request.prompt.front(), s.service.tokenizer()->bos());
  EXPECT_EQ(s.service.tokenizer()->decode(r.request.prompt), "user: hello\nassistant: ");
}

TEST(Server, StreamedChat) {
  TestServer s;
  const Reply r =
      s.post("/v1/chat/completions",
             with(kChatBody, {{"stream", true}, {"max_tokens", 2}, {"stream_options", {{"include_usage", true}}}}));
  ASSERT_EQ(r.status, 200);
  EXPECT_EQ(r.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(r.header("cache-control"), "no-cache");
  const auto events = events_of(r.body);
  std::string text;
  ASSERT_GE(events.size(), 4u);
  const auto choice = [](const std::string& delta, const std::string& finish) {
    return R"([{"index":0,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" + finish + "}]";
  };
  EXPECT_EQ(events[0]["choices"].dump(), choice(R"({"role":"assistant","content":"","refusal":null})", "null"));
  for (std::size_t i = 1; i + 2 < events.size(); ++i) {
    const std::string piece = events[i]["choices"][0]["delta"]["content"];
    EXPECT_EQ(events[i]["choices"].dump(), choice(Json({{"content", piece}}).dump(), "null"));
    text += piece;
  }
  EXPECT_EQ(text, "w0 w1 ");
  EXPECT_EQ(events[events.size() - 2]["choices"].dump(), choice("{}", "\"length\""));
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    ASSERT_TRUE(events[i].contains("usage"));
    EXPECT_TRUE(events[i]["usage"].is_null());
    EXPECT_FALSE(events[i].contains("kvasir"));
  }
  EXPECT_EQ(events.back()["choices"].dump(), "[]");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 2);
  EXPECT_TRUE(events.back()["kvasir"].contains("spans"));
}

TEST(Server, StreamWithoutUsageEndsWithTheReceipt) {
  TestServer s;
  const auto events = events_of(s.post("/v1/chat/completions", with(kChatBody, {{"stream", true}})).body);
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(events.back().contains("kvasir"));
  for (const Json& e : events) EXPECT_FALSE(e.contains("usage"));
}

TEST(Server, ChatLogprobs) {
  TestServer s;
  const Json ask = with(kChatBody, {{"logprobs", true}, {"top_logprobs", 2}, {"max_tokens", 1}});
  const std::string item =
      R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]},)"
      R"({"token":"b","logprob":-1.5,"bytes":[98]}]})";
  const Json plain = s.post("/v1/chat/completions", ask).json();
  EXPECT_EQ(plain["choices"][0]["logprobs"].dump(), R"({"content":[)" + item + R"(],"refusal":null})");
  const auto events = events_of(s.post("/v1/chat/completions", with(ask, {{"stream", true}})).body);
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["content"][0].dump(), item);
}

TEST(Server, ToolCalls) {
  TestServer s({.tokens = 4, .script = {"Let me see. <ca", "ll>weather {\"city\"", ": \"Oslo\"}</c", "all>"}});
  const Json ask = with(
      kChatBody, Json::parse(R"({"tools": [{"type": "function", "function": {"name": "weather", "z": 1, "a": 2}}]})"));
  const Json plain = s.post("/v1/chat/completions", ask).json();
  EXPECT_EQ(plain["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(plain["choices"][0]["message"]["content"], "Let me see. ");
  EXPECT_EQ(plain["choices"][0]["message"]["tool_calls"].dump(),
            R"([{"id":"call_0","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Oslo\"}"}}])");
  // Keys reach the template in the client's order.
  const auto prompt = s.service.tokenizer()->decode(s.service.requests().at(0).request.prompt);
  EXPECT_NE(prompt.find(R"({"name":"weather","z":1,"a":2})"), std::string::npos) << prompt;

  const auto events = events_of(s.post("/v1/chat/completions", with(ask, {{"stream", true}})).body);
  std::string content;
  int calls = 0;
  for (const Json& e : events) {
    const Json& delta = e["choices"][0]["delta"];
    content += delta.value("content", "");
    if (!delta.contains("tool_calls")) continue;
    ++calls;
    EXPECT_EQ(
        delta["tool_calls"].dump(),
        R"([{"index":0,"id":"call_0","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Oslo\"}"}}])");
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(content, "Let me see. ");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
}

TEST(Server, ToolChoiceNoneShowsTools) {
  TestServer s;
  const Json tools =
      Json::parse(R"({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"})");
  ASSERT_EQ(s.post("/v1/chat/completions", with(kChatBody, tools)).status, 200);
  const auto prompt = s.service.tokenizer()->decode(s.service.requests().at(0).request.prompt);
  EXPECT_NE(prompt.find("tools"), std::string::npos);
}

TEST(Server, Completions) {
  TestServer s({.reused = 1});
  const Reply r = s.post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 2}, {"logprobs", 1}});
  ASSERT_EQ(r.status, 200) << r.body;
  const Json expected = Json::parse(R"({
    "object": "text_completion", "model": "org/fake-model",
    "choices": [{"index": 0, "text": "w0 w1 ",
      "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-0.5, -0.5], "top_logprobs": [{"a": -0.5}, {"a": -0.5}],
                   "text_offset": [0, 1]},
      "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
              "prompt_tokens_details": {"cached_tokens": 1}}})");
  EXPECT_EQ(settled(r.json()).dump(1), expected.dump(1));
  EXPECT_EQ(s.post("/v1/completions", {{"prompt", "abc"}}).json()["usage"]["completion_tokens"], 16);
}

TEST(Server, StreamedCompletion) {
  TestServer s;
  const auto events = events_of(
      s.post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 2}, {"stream", true}, {"echo", true}}).body);
  std::string text;
  for (const Json& e : events) {
    EXPECT_EQ(e["object"], "text_completion");
    text += e["choices"][0]["text"];
  }
  EXPECT_EQ(text, "abcw0 w1 ");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "length");
}

TEST(Server, SeveralPromptsAndAnswers) {
  TestServer s;
  const Json body =
      s.post("/v1/completions", {{"prompt", {"ab", "cde"}}, {"n", 2}, {"max_tokens", 1}, {"seed", 5}}).json();
  ASSERT_EQ(body["choices"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(body["choices"][i]["index"], i);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);  // each prompt once
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["kvasir"]["choices"].size(), 4u);
  const auto requests = s.service.requests();
  EXPECT_EQ(requests.at(0).request.sampling.seed, 5);
  EXPECT_EQ(requests.at(1).request.sampling.seed, 6);
  EXPECT_EQ(requests.at(0).request.prompt, requests.at(1).request.prompt);
  EXPECT_EQ(requests.at(2).request.prompt.size(), 3u);
}

TEST(Server, PromptsOfIds) {
  TestServer s;
  ASSERT_EQ(s.post("/v1/completions", {{"prompt", {1, 2, 3}}}).status, 200);
  EXPECT_EQ(s.service.requests().at(0).request.prompt, (std::vector<std::int32_t>{1, 2, 3}));
  const Json two =
      s.post("/v1/completions", Json::parse(R"({"prompt": [[97], [98, 99]], "echo": true, "max_tokens": 1})")).json();
  EXPECT_EQ(two["choices"][0]["text"], "aw0 ");
  EXPECT_EQ(two["choices"][1]["text"], "bcw0 ");
}

TEST(Server, StopStringsAndSamplingReachTheService) {
  TestServer s;
  const Json body = s.post("/v1/completions", Json::parse(R"({"prompt": "x", "stop": ["w2"], "temperature": 0.5,
    "top_p": 0.9, "top_k": 7, "min_p": 0.1, "presence_penalty": 0.5, "frequency_penalty": -0.5,
    "repetition_penalty": 1.5, "logit_bias": {"5": -100}, "reuse": false, "unheard_of": {"x": [1]}})"))
                        .json();
  EXPECT_EQ(body["choices"][0]["text"], "w0 w1 ");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  const run::ServiceRequest r = s.service.requests().at(0);
  EXPECT_EQ(r.request.sampling.temperature, 0.5f);
  EXPECT_EQ(r.request.sampling.top_k, 7);
  EXPECT_EQ(r.request.sampling.min_p, 0.1f);
  EXPECT_EQ(r.request.sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(r.request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(r.request.sampling.logit_bias.at(5), -100);
  EXPECT_FALSE(r.reuse);
}

TEST(Server, TextHeldBackForAStopStringIsNotLost) {
  TestServer s({.tokens = 3});
  const Json body{{"prompt", "x"}, {"stop", {"w2 w3"}}, {"max_tokens", 3}, {"logprobs", 0}};
  const Json choice = s.post("/v1/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["text"], "w0 w1 w2 ");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 3u);
  std::string text;
  for (const Json& e : events_of(s.post("/v1/completions", with(body, {{"stream", true}})).body))
    text += e["choices"][0]["text"];
  EXPECT_EQ(text, "w0 w1 w2 ");
}

TEST(Server, BrokenTextBecomesReplacementCharacters) {
  TestServer s({.tokens = 2, .script = {"a\xff", "\xe2\x82"}});
  const Json plain = s.post("/v1/chat/completions", kChatBody).json();
  EXPECT_EQ(plain["choices"][0]["message"]["content"], "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(events_of(s.post("/v1/chat/completions", with(kChatBody, {{"stream", true}})).body).size(), 4u);
}

TEST(Server, FailuresOfTheEngine) {
  TestServer s({.fail = "the pool is broken"});
  const Reply plain = s.post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(plain.status, 500);
  EXPECT_EQ(
      plain.json().dump(),
      R"({"error":{"message":"the pool is broken","type":"server_error","param":null,"code":"generation_failed"}})");
  const auto events = events_of(s.post("/v1/chat/completions", with(kChatBody, {{"stream", true}})).body);
  EXPECT_EQ(events.back()["error"]["message"], "the pool is broken");
  TestServer nothing({.end_without_text = true});
  EXPECT_EQ(nothing.post("/v1/chat/completions", kChatBody).status, 500);
}

TEST(Server, FailuresOfAParser) {
  TestServer s({.script = {"<broken>"}});
  const Reply plain = s.post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(plain.status, 500);
  EXPECT_EQ(plain.body.find("own error"), std::string::npos);
  EXPECT_TRUE(
      events_of(s.post("/v1/chat/completions", with(kChatBody, {{"stream", true}})).body).back().contains("error"));
  EXPECT_TRUE(s.logs("what=\"a parser's own error\"")) << s.log();
}

}  // namespace
}  // namespace kvasir::serve
