// Every route and the shape of every answer, against documented objects of the OpenAI API.
#include "serve/server.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "serve/prefix_id.hpp"
#include "serve/test_client.hpp"

namespace kvasir::serve {
namespace {

const Json kChat{{"model", "org/fake-model"}, {"messages", {{{"role", "user"}, {"content", "hello"}}}}};

Json with(Json body, const Json& more) {
  body.update(more);
  return body;
}

// Removes what differs from run to run.
Json settled(Json json) {
  for (const char* key : {"id", "created", "system_fingerprint", "kvasir"}) json.erase(key);
  return json;
}

TEST(Server, PlainChat) {
  TestServer s({.reused = 7});
  const Reply r = s.post("/v1/chat/completions", kChat);
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
  ASSERT_EQ(s.post("/v1/chat/completions", kChat).status, 200);
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
             with(kChat, {{"stream", true}, {"max_tokens", 2}, {"stream_options", {{"include_usage", true}}}}));
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
  const auto events = events_of(s.post("/v1/chat/completions", with(kChat, {{"stream", true}})).body);
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(events.back().contains("kvasir"));
  for (const Json& e : events) EXPECT_FALSE(e.contains("usage"));
}

TEST(Server, ChatLogprobs) {
  TestServer s;
  const Json ask = with(kChat, {{"logprobs", true}, {"top_logprobs", 2}, {"max_tokens", 1}});
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
  const Json ask =
      with(kChat, Json::parse(R"({"tools": [{"type": "function", "function": {"name": "weather", "z": 1, "a": 2}}]})"));
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

TEST(Server, ToolChoiceNoneHidesTools) {
  TestServer s;
  const Json tools =
      Json::parse(R"({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"})");
  ASSERT_EQ(s.post("/v1/chat/completions", with(kChat, tools)).status, 200);
  const auto prompt = s.service.tokenizer()->decode(s.service.requests().at(0).request.prompt);
  EXPECT_EQ(prompt.find("tools"), std::string::npos);
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
  const Json plain = s.post("/v1/chat/completions", kChat).json();
  EXPECT_EQ(plain["choices"][0]["message"]["content"], "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(events_of(s.post("/v1/chat/completions", with(kChat, {{"stream", true}})).body).size(), 4u);
}

TEST(Server, FailuresOfTheEngine) {
  TestServer s({.fail = "the pool is broken"});
  const Reply plain = s.post("/v1/chat/completions", kChat);
  EXPECT_EQ(plain.status, 500);
  EXPECT_EQ(
      plain.json().dump(),
      R"({"error":{"message":"the pool is broken","type":"server_error","param":null,"code":"generation_failed"}})");
  const auto events = events_of(s.post("/v1/chat/completions", with(kChat, {{"stream", true}})).body);
  EXPECT_EQ(events.back()["error"]["message"], "the pool is broken");
  TestServer nothing({.end_without_text = true});
  EXPECT_EQ(nothing.post("/v1/chat/completions", kChat).status, 500);
}

TEST(Server, FailuresOfAParser) {
  TestServer s({.script = {"<broken>"}});
  const Reply plain = s.post("/v1/chat/completions", kChat);
  EXPECT_EQ(plain.status, 500);
  EXPECT_EQ(plain.body.find("own error"), std::string::npos);
  EXPECT_TRUE(events_of(s.post("/v1/chat/completions", with(kChat, {{"stream", true}})).body).back().contains("error"));
  EXPECT_TRUE(s.logs("what=\"a parser's own error\"")) << s.log();
}

TEST(Server, Models) {
  TestServer s;
  const Json list = s.ask("GET", "/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "org/fake-model");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(s.ask("GET", "/v1/models/org/fake-model").json()["id"], "org/fake-model");
  EXPECT_EQ(s.ask("GET", "/v1/models/org%2Ffake-model").json()["max_model_len"], 4096);
  const Reply other = s.ask("GET", "/v1/models/gpt-4");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(s.post("/v1/chat/completions", with(kChat, {{"model", "gpt-4"}})).status, 404);
  TestServer any({}, {.any_model = true});
  EXPECT_EQ(any.post("/v1/chat/completions", with(kChat, {{"model", "gpt-4"}})).status, 200);
}

TEST(Server, HealthStatsAndMetrics) {
  TestServer s({.reused = 3});
  EXPECT_EQ(s.ask("GET", "/health").body, R"({"status":"ok"})");
  const Reply head = s.ask("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "15");
  ASSERT_EQ(s.post("/v1/completions", {{"prompt", "abcdef"}, {"max_tokens", 4}}).status, 200);
  const Json stats = s.ask("GET", "/v1/stats").json();
  EXPECT_EQ(stats["requests"]["accepted"], 1);
  EXPECT_EQ(stats["tiers"][0]["evictions"], 6);
  EXPECT_EQ(stats["kv"]["budget"], 2000);
  const Reply metrics = s.ask("GET", "/metrics");
  EXPECT_EQ(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"kvasir_http_requests_total{route=\"completions\",status=\"200\"} 1\n", "kvasir_prompt_tokens_total 6\n",
        "kvasir_cached_tokens_total 3\n", "kvasir_completion_tokens_total 4\n",
        "kvasir_time_to_first_token_seconds_count 1\n", "kvasir_inter_token_seconds_count 3\n",
        "kvasir_tier_hits_total{tier=\"ram\"} 4\n", "kvasir_tier_evictions_total{tier=\"ram\"} 6\n",
        "kvasir_kv_bytes 1000\n", "# TYPE kvasir_inter_token_seconds histogram\n"})
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line << metrics.body;
}

TEST(Server, Warm) {
  TestServer s({.reused = 2});
  const Reply r = s.post("/v1/warm", {{"prompt", "abcdef"}});
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.json()["object"], "kvasir.warm");
  EXPECT_EQ(r.json()["pinned"], true);
  EXPECT_EQ(r.json()["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(r.json()["kvasir"]["reused_tokens"], 2);
  const run::ServiceRequest request = s.service.requests().at(0);
  EXPECT_TRUE(request.pin);
  EXPECT_EQ(request.request.max_tokens, 0);
  ASSERT_EQ(s.post("/v1/warm", with(kChat, {{"pin", false}})).status, 200);
  EXPECT_FALSE(s.service.requests().at(1).pin);
  EXPECT_EQ(s.service.tokenizer()->decode(s.service.requests().at(1).request.prompt), "user: hello\n");
  EXPECT_EQ(s.post("/v1/warm", {{"model", "org/fake-model"}}).json()["error"]["param"], "prompt");
}

TEST(Server, PinsEndInTimeOrWhenAsked) {
  TestServer s;
  const Json body{{"prompt", "abcdef"}};
  ASSERT_EQ(s.post("/v1/warm", body).status, 200);
  ASSERT_EQ(s.post("/v1/warm", with(kChat, {{"ttl", 90.5}})).status, 200);
  EXPECT_EQ(s.service.requests().at(0).pin_seconds, 86400);
  EXPECT_EQ(s.service.requests().at(1).pin_seconds, 90.5);
  for (const Json& ttl : {Json(0), Json(-5), Json("1h"), Json(1e9)})
    EXPECT_EQ(s.post("/v1/warm", with(body, {{"ttl", ttl}})).json()["error"]["param"], "ttl") << ttl;
  const Reply gone = s.ask("DELETE", "/v1/warm", body.dump());
  ASSERT_EQ(gone.status, 200) << gone.body;
  EXPECT_EQ(gone.json()["pinned"], false);
  EXPECT_EQ(gone.json()["prompt_tokens"], 6);
  const Reply again = s.ask("DELETE", "/v1/warm", body.dump());
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.json()["error"]["code"], "not_pinned");
  EXPECT_EQ(s.ask("DELETE", "/v1/warm", kChat.dump()).status, 200);
  EXPECT_EQ(s.ask("DELETE", "/v1/warm", "{}").json()["error"]["param"], "prompt");
  EXPECT_EQ(s.ask("PUT", "/v1/warm", body.dump()).status, 405);
  TestServer full({.pin_error = "there is no room"});
  const Json answer = full.post("/v1/warm", body).json();
  EXPECT_EQ(answer["pinned"], false);
  EXPECT_EQ(answer["pin_error"], "there is no room");
}

// FakeChat cannot place bytes; texts can.
TEST(Server, MissesNameTheByte) {
  TestServer s({.miss_token = 4});
  const Json completion = s.post("/v1/completions", {{"prompt", "abcdefgh"}}).json()["kvasir"];
  EXPECT_EQ(completion["miss"], "the prompt ended (byte 4 of the prompt)");
  EXPECT_EQ(completion["miss_at"].dump(), R"({"token":4,"byte":4})");
  EXPECT_TRUE(s.logs("miss=\"the prompt ended (byte 4 of the prompt)\"")) << s.log();
  EXPECT_TRUE(s.post("/v1/completions", {{"prompt", {97, 98, 99, 100, 101}}}).json()["kvasir"]["miss_at"].is_null());
  const Json chat = s.post("/v1/chat/completions", kChat).json()["kvasir"];
  EXPECT_EQ(chat["miss"], "the prompt ended");
  EXPECT_TRUE(chat["miss_at"].is_null());
}

TEST(Server, TokenizeAndDetokenize) {
  TestServer s;
  const Json r = s.post("/tokenize", {{"content", "ab<|end|>"}}).json();
  EXPECT_EQ(r["count"], 3);
  EXPECT_EQ(r["tokens"][0], 97);
  EXPECT_EQ(s.post("/tokenize", {{"content", "ab<|end|>"}, {"parse_special", false}}).json()["count"], 9);
  EXPECT_EQ(s.post("/tokenize", {{"prompt", "a"}, {"with_pieces", true}}).json()["tokens"].dump(),
            R"([{"id":97,"piece":"a"}])");
  EXPECT_GT(s.post("/tokenize", kChat).json()["count"], 10);
  EXPECT_EQ(s.post("/detokenize", {{"tokens", r["tokens"]}}).json()["content"], "ab<|end|>");
  EXPECT_EQ(s.post("/detokenize", {{"tokens", {255}}}).json()["content"], "\xef\xbf\xbd");
  EXPECT_EQ(s.post("/detokenize", {{"tokens", {100000}}}).json()["error"]["param"], "tokens[0]");
  EXPECT_EQ(s.post("/tokenize", {{"text", "a"}}).json()["error"]["param"], "content");
}

TEST(Server, WithoutTokenizer) {
  TestServer s({.tokenizer = false});
  EXPECT_EQ(s.post("/v1/completions", {{"prompt", "abc"}}).status, 501);
  EXPECT_EQ(s.post("/tokenize", {{"content", "abc"}}).status, 501);
  const Json ids = s.post("/v1/completions", {{"prompt", {1, 2}}, {"logprobs", 0}, {"max_tokens", 1}}).json();
  EXPECT_EQ(ids["choices"][0]["logprobs"]["tokens"][0], "token_id:97");
}

TEST(Server, BadRequestsNameTheirField) {
  TestServer s({.context = 40}, {.max_prompt = 20});
  const auto error = [&](const char* path, const std::string& body, int status) {
    const Reply r = s.ask("POST", path, body);
    EXPECT_EQ(r.status, status) << body << "\n" << r.body;
    return r.json()["error"];
  };
  const char* chat = "/v1/chat/completions";
  const char* text = "/v1/completions";
  EXPECT_EQ(error(chat, R"({"messages": "x"})", 400)["param"], "messages");
  EXPECT_EQ(error(chat, R"({"messages": []})", 400)["param"], "messages");
  EXPECT_EQ(error(chat, R"({})", 400)["param"], "messages");
  EXPECT_EQ(error(chat, R"({"messages": [{"role": "user"}]})", 400)["param"], "messages[0].content");
  EXPECT_EQ(error(chat, R"({"messages": [{"role": "refused", "content": ""}]})", 400)["param"], "messages");
  EXPECT_EQ(error(text, R"({"prompt": "x", "temperature": "hot"})", 400)["param"], "temperature");
  EXPECT_EQ(error(text, R"({"prompt": "x", "temperature": -1})", 400)["code"], "invalid_value");
  EXPECT_EQ(error(text, R"({"prompt": {"a": 1}})", 400)["param"], "prompt");
  EXPECT_EQ(error(text, R"({"prompt": [1, "a"]})", 400)["param"], "prompt[1]");
  EXPECT_EQ(error(text, R"({"prompt": ""})", 400)["param"], "prompt");
  EXPECT_EQ(error(text, R"([1])", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, R"({"prompt": "x")", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, "", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, "{\"prompt\": \"\xff\xfe\"}", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, std::string(100000, '['), 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, R"({"prompt": ")" + std::string(30, 'x') + R"("})", 413)["code"], "prompt_too_long");
  EXPECT_EQ(error(text, R"({"prompt": ")" + std::string(40, 'x') + R"("})", 400)["code"], "context_length_exceeded");
  EXPECT_EQ(s.service.requests().size(), 0u);
}

TEST(Server, RoutesAndMethods) {
  TestServer s;
  const Reply none = s.ask("GET", "/v2/nothing");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.json()["error"]["code"], "not_found");
  const Reply method = s.ask("GET", "/v1/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "OPTIONS, POST");
  EXPECT_EQ(s.ask("GET", "/health?x=1").status, 200);
  EXPECT_EQ(s.ask("GET", "/%00").status, 400);
  EXPECT_EQ(s.ask("GET", "*").status, 400);
  EXPECT_EQ(s.ask("GET", "/health", "", "X-Request-Id: abc-1\r\n").header("x-request-id"), "abc-1");
  EXPECT_NE(s.ask("GET", "/health", "", "X-Request-Id: a b\r\n").header("x-request-id"), "a b");
  EXPECT_TRUE(s.logs("id=abc-1 ")) << s.log();
}

TEST(Server, KeysAndTenants) {
  const std::string path = testing::TempDir() + "kvasir_keys";
  const std::string text = "# keys\nsecret-one alice\nsecret-two\n";
  write_file(path, std::as_bytes(std::span(text)));
  TestServer s({}, {.api_key_file = path});
  EXPECT_EQ(s.ask("GET", "/health").status, 200);
  const Reply none = s.post("/v1/chat/completions", kChat);
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("www-authenticate"), "Bearer");
  EXPECT_EQ(none.json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(s.ask("GET", "/metrics").status, 401);
  EXPECT_EQ(s.ask("GET", "/v1/models", "", "Authorization: Bearer secret-on\r\n").status, 401);
  EXPECT_EQ(s.ask("GET", "/v1/models", "", "Authorization: Basic secret-one\r\n").status, 401);
  const auto as = [&](const char* key) {
    return s.ask("POST", "/v1/chat/completions", dump(kChat), fmt::format("Authorization: Bearer {}\r\n", key)).status;
  };
  EXPECT_EQ(as("secret-one"), 200);
  EXPECT_EQ(as("secret-two"), 200);
  EXPECT_EQ(s.service.requests().at(0).tenant, "alice");
  EXPECT_TRUE(s.service.requests().at(1).tenant.starts_with("key-"));
  EXPECT_EQ(s.ask("GET", "/v1/models", "", "X-Request-Id: last\r\nAuthorization: Bearer secret-on\r\n").status, 401);
  EXPECT_TRUE(s.logs("id=last ")) << s.log();
  EXPECT_EQ(s.log().find("secret"), std::string::npos);
}

// --- X-Kvasir-Prefix ------------------------------------------------------------------------------------------------

std::string prefix_of(TestServer& s, const std::string& path, const Json& body, const std::string& headers = "") {
  const Reply r = s.ask("POST", path, dump(body), headers);
  EXPECT_EQ(r.status, 200) << r.body;
  EXPECT_TRUE(valid_prefix_id(r.header("x-kvasir-prefix"))) << r.header("x-kvasir-prefix");
  return r.header("x-kvasir-prefix");
}

Json message(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

TEST(Server, TurnsOfAChatHaveOnePrefix) {
  TestServer s;
  const std::string path = "/v1/chat/completions";
  Json chat{{"messages", {message("system", "Be kind."), message("user", "hello")}}};
  const std::string first = prefix_of(s, path, chat);
  chat["messages"].push_back(message("assistant", "w0"));
  chat["messages"].push_back(message("user", "and then?"));
  EXPECT_EQ(prefix_of(s, path, chat), first);
  EXPECT_EQ(prefix_of(s, path, with(chat, {{"stream", true}})), first);
  EXPECT_EQ(prefix_of(s, "/v1/warm", chat), first);
  Json other = chat;
  other["messages"][1]["content"] = "hello!";
  EXPECT_NE(prefix_of(s, path, other), first);
  other = chat;
  other["messages"][0]["content"] = "Be brief.";
  EXPECT_NE(prefix_of(s, path, other), first);
  // A part of a text is the same text.
  chat["messages"][1]["content"] = Json::array({{{"type", "text"}, {"text", "hello"}}});
  EXPECT_EQ(prefix_of(s, path, chat), first);
  EXPECT_EQ(s.ask("GET", "/health").header("x-kvasir-prefix"), "");
}

TEST(Server, PromptsWithOneFirstPageHaveOnePrefix) {
  TestServer s;
  std::vector<int> ids(128);
  for (int i = 0; i < 128; ++i) ids[static_cast<std::size_t>(i)] = 97 + i % 26;
  const auto of = [&] { return prefix_of(s, "/v1/completions", {{"prompt", ids}}); };
  const std::string first = of();
  ids.push_back(98);
  EXPECT_EQ(of(), first);
  ids[127] = 99;
  EXPECT_NE(of(), first);
}

TEST(Server, APrefixThatIsSentBackIsKept) {
  TestServer s;
  const std::string path = "/v1/chat/completions";
  const std::string own = prefix_of(s, path, kChat);
  EXPECT_EQ(prefix_of(s, path, kChat, "X-Kvasir-Prefix: 0123456789abcdef\r\n"), "0123456789abcdef");
  for (const char* wrong : {"0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0", "../../../../../.", ""})
    EXPECT_EQ(prefix_of(s, path, kChat, fmt::format("X-Kvasir-Prefix: {}\r\n", wrong)), own) << wrong;
}

TEST(Server, PrefixesDependOnSecretAndTenant) {
  const auto file = [](const char* name, const std::string& text) {
    const std::string path = testing::TempDir() + name;
    write_file(path, std::as_bytes(std::span(text)));
    return path;
  };
  const std::string one = file("kvasir_secret_1", "0123456789 secret\n"),
                    two = file("kvasir_secret_2", "another secret!!");
  const std::string path = "/v1/chat/completions";
  TestServer a({}, {.prefix_key_file = one}), b({}, {.prefix_key_file = one}), c({}, {.prefix_key_file = two});
  TestServer random_1, random_2;
  const std::string known = prefix_of(a, path, kChat);
  EXPECT_EQ(prefix_of(b, path, kChat), known);
  EXPECT_NE(prefix_of(c, path, kChat), known);
  EXPECT_NE(prefix_of(random_1, path, kChat), prefix_of(random_2, path, kChat));
  TestServer tenants({}, {.api_key_file = file("kvasir_prefix_keys", "k1 alice\nk2 bob\n"), .prefix_key_file = one});
  EXPECT_NE(prefix_of(tenants, path, kChat, "Authorization: Bearer k1\r\n"),
            prefix_of(tenants, path, kChat, "Authorization: Bearer k2\r\n"));
  EXPECT_THROW(TestServer({}, {.prefix_key_file = file("kvasir_secret_3", "  too short  \n")}), Error);
}

// What is refused after the prompt was read says where it belongs too: the next try should go there.
TEST(Server, ARefusalHasAPrefix) {
  TestServer s({.most_queued = 0});
  const Reply r = s.post("/v1/chat/completions", kChat);
  EXPECT_EQ(r.status, 429);
  EXPECT_TRUE(valid_prefix_id(r.header("x-kvasir-prefix")));
}

TEST(Server, OriginsAndHosts) {
  TestServer s({}, {.cors_origins = {"https://ui.example"}, .allowed_hosts = {"box.lan"}});
  const Reply pre = s.ask("OPTIONS", "/v1/completions", "",
                          "Origin: https://ui.example\r\nAccess-Control-Request-Method: POST\r\n"
                          "Access-Control-Request-Headers: authorization\r\n");
  EXPECT_EQ(pre.status, 204);
  EXPECT_EQ(pre.header("access-control-allow-origin"), "https://ui.example");
  EXPECT_EQ(pre.header("access-control-allow-headers"), "authorization");
  EXPECT_EQ(s.ask("GET", "/health", "", "Origin: https://ui.example\r\n").header("access-control-expose-headers"),
            "X-Request-Id, X-Kvasir-Prefix");
  EXPECT_EQ(s.ask("GET", "/health", "", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_EQ(s.ask("GET", "/health", "", "Origin: http://localhost\r\n").status, 200);  // its own page
  const auto host = [&](const char* name) {
    Client client(s.port());
    client.send(fmt::format("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", name));
    return client.read().status;
  };
  EXPECT_EQ(host("127.0.0.1:8080"), 200);
  EXPECT_EQ(host("[::1]:8080"), 200);
  EXPECT_EQ(host("box.lan:8080"), 200);
  EXPECT_EQ(host("rebound.example"), 403);
  EXPECT_EQ(host("127.0.0.1.evil.example"), 403);
}

}  // namespace
}  // namespace kvasir::serve
