// What official clients read of answers besides their text: headers, usage, stop sequences, lists of models, escapes.
#include <gtest/gtest.h>

#include "serve/client_fixture.hpp"

namespace kvasir::serve {
namespace {

const Json kHello = Json::array({{{"role", "user"}, {"content", "hi"}}});

TEST(ServerProtocols, StopSequenceIsTheOneThatMatched) {
  TestServer s(FakeOptions{.script = {"abc ", "def "}});
  for (const auto& [stops, hit] : {std::pair{Json::array({"zzz", "e"}), "e"}, {Json::array({"e", "zzz"}), "e"}}) {
    const Json m =
        s.ask("POST", "/v1/messages", dump({{"max_tokens", 9}, {"stop_sequences", stops}, {"messages", kHello}}))
            .json();
    EXPECT_EQ(m["stop_reason"], "stop_sequence");
    EXPECT_EQ(m["stop_sequence"], hit);
    const Json c = s.ask("POST", "/completion", dump({{"prompt", "x"}, {"n_predict", 9}, {"stop", stops}})).json();
    EXPECT_EQ(c["stopping_word"], hit);
  }
}

TEST(ServerProtocols, ModelsInBothForms) {
  TestServer s;
  const Json list = s.ask("GET", "/v1/models").json();
  const Json one = s.ask("GET", "/v1/models/org/fake-model").json();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(list["first_id"], "org/fake-model");
  EXPECT_EQ(list["last_id"], "org/fake-model");
  for (const Json& model : {list["data"][0], one}) {
    EXPECT_EQ(model["object"], "model");
    EXPECT_EQ(model["type"], "model");
    EXPECT_EQ(model["display_name"], "org/fake-model");
    EXPECT_TRUE(model["created_at"].get<std::string>().ends_with("Z"));
  }
}

TEST(ServerProtocols, MessageStartKnowsTheCache) {
  TestServer s(FakeOptions{.reused = 3, .prefill_steps = 2});
  const Json body{{"max_tokens", 2}, {"stream", true}, {"messages", kHello}};
  const std::string text = s.ask("POST", "/v1/messages", dump(body)).body;
  const std::string first = text.substr(0, text.find("\n\n"));
  EXPECT_TRUE(first.starts_with("event: message_start")) << first;
  EXPECT_NE(first.find("\"cache_read_input_tokens\":3"), std::string::npos) << first;
}

TEST(ServerProtocols, ErrorsThatStaySaySo) {
  TestServer s(FakeOptions{.tokenizer = false});
  const Reply never = s.ask("POST", "/v1/chat/completions", dump({{"messages", kHello}}));
  EXPECT_EQ(never.status, 501);
  EXPECT_EQ(never.header("x-should-retry"), "false");
  EXPECT_FALSE(never.header("request-id").empty());
  TestServer busy(FakeOptions{.most_queued = 0});
  const Reply later = busy.ask("POST", "/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(later.status, 429);
  EXPECT_EQ(later.header("x-should-retry"), "");
  EXPECT_TRUE(retry_helps({.status = 503, .message = "", .code = "queue_timeout"}));
  EXPECT_FALSE(retry_helps({.status = 503, .message = "", .code = "no_room"}));
  EXPECT_FALSE(retry_helps({.status = 507, .message = "", .code = "model_too_large"}));
}

TEST(ServerProtocols, OllamaHasLogprobs) {
  TestServer s(FakeOptions{.tokens = 2});
  for (const bool chat : {true, false})
    for (const bool raw : {false, true}) {
      if (chat && raw) continue;
      Json body{{"model", "org/fake-model"}, {"stream", false}, {"logprobs", true}, {"top_logprobs", 2}, {"raw", raw}};
      if (chat) body["messages"] = kHello;
      if (!chat) body["prompt"] = "hi";
      const char* path = chat ? "/api/chat" : "/api/generate";
      const Json whole = s.ask("POST", path, dump(body)).json();
      ASSERT_EQ(whole["logprobs"].size(), 2u) << whole;
      EXPECT_EQ(whole["logprobs"][0]["token"], "a");
      EXPECT_EQ(whole["logprobs"][0]["logprob"], -0.5);
      EXPECT_EQ(whole["logprobs"][0]["top_logprobs"].size(), 2u);
      body["stream"] = true;
      const std::string lines = s.ask("POST", path, dump(body)).body;
      std::size_t tokens = 0;
      for (std::size_t at = 0; (at = lines.find("\"top_logprobs\"", at)) != lines.npos; ++at) ++tokens;
      EXPECT_EQ(tokens, 2u) << lines;
      body.erase("logprobs");
      EXPECT_EQ(s.ask("POST", path, dump(body)).status, 400);
    }
  const Json missing = s.ask("POST", "/api/chat", dump({{"model", "nope"}, {"messages", kHello}})).json();
  EXPECT_TRUE(missing["error"].get<std::string>().starts_with("model 'nope' not found")) << missing;
}

TEST(ServerProtocols, ResponsesHaveLogprobs) {
  TestServer s(FakeOptions{.tokens = 2});
  const Json whole = s.ask("POST", "/v1/responses", R"({"input": "hi", "top_logprobs": 2})").json();
  const Json& logprobs = whole["output"][0]["content"][0]["logprobs"];
  ASSERT_EQ(logprobs.size(), 2u) << whole;
  EXPECT_EQ(logprobs[0]["top_logprobs"].size(), 2u);
}

TEST(ServerProtocols, LineSeparatorsAreEscapes) {
  TestServer s(FakeOptions{.tokens = 1, .script = {"a\u0085b\u2028c\u2029d"}});
  for (const char* body :
       {R"({"model": "org/fake-model", "messages": [{"role": "user", "content": "hi"}]})",
        R"({"model": "org/fake-model", "stream": false, "messages": [{"role": "user", "content": "hi"}]})"}) {
    const std::string text = s.ask("POST", "/api/chat", body).body;
    EXPECT_NE(text.find(R"(a\u0085b\u2028c\u2029d)"), std::string::npos) << text;
  }
}

TEST(ServerProtocols, WhatWouldChangeTheAnswerIsRefused) {
  TestServer s(FakeOptions{.tokens = 1});
  for (const char* field :
       {R"("dry_multiplier": 1)", R"("mirostat": 2)", R"("min_tokens": 3)", R"("bad_words": ["x"])"}) {
    const Reply r = s.ask("POST", "/v1/completions", std::string(R"({"prompt": "x", )") + field + "}");
    EXPECT_EQ(r.status, 400) << field;
    EXPECT_EQ(r.json()["error"]["code"], "unsupported_parameter") << field;
  }
  for (const char* field : {R"("lora": null)", R"("mirostat": 0)", R"("typical_p": 1.0)", R"("min_tokens": null)"})
    EXPECT_EQ(s.ask("POST", "/v1/completions", std::string(R"({"prompt": "x", )") + field + "}").status, 200) << field;
  // By the names that the client sent.
  EXPECT_EQ(s.ask("POST", "/infill", R"({"input_prefix": "a", "input_suffix": "b"})").json()["error"]["param"],
            "input_suffix");
  EXPECT_EQ(s.ask("POST", "/v1/warm", R"({"text": "hello"})").status, 200);
}

}  // namespace
}  // namespace kvasir::serve
