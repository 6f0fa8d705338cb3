// The answers of every dialect but OpenAI's chats and completions: whole, streamed, refused; and their further routes.
#include <gtest/gtest.h>

#include <fstream>

#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"
#include "serve/conversation_fixture.hpp"
#include "serve/route.hpp"

namespace kvasir::serve {
namespace {

// Thinks, says something and calls.
const std::vector<std::string> kScript = {"<thi",
                                          "nk>\nHm",
                                          ", Oslo.\n</think>",
                                          "\n\nI ",
                                          "look. ",
                                          "<tool_call>\n{\"name\": \"weather\", ",
                                          "\"arguments\": {\"place\": \"Oslo\"}}\n</tool_call>"};
constexpr const char* kArguments = R"({"place": "Oslo"})";

FakeOptions speaking(std::vector<std::string> script = kScript) {
  FakeOptions o;
  o.tokens = static_cast<int>(script.size());
  o.ends = true;
  o.script = std::move(script);
  o.reused = 9;
  return o;
}

class ThinkingServer {
 public:
  explicit ThinkingServer(FakeOptions fake = speaking(), ServerOptions options = {})
      : chat_(thinking_chat()), s(std::move(fake), std::move(options), false, &chat_) {}

  Json post(const std::string& path, const Json& body, int status = 200) {
    const Reply r = s.post(path, body);
    EXPECT_EQ(r.status, status) << path << " " << r.body;
    return Json::parse(r.body);
  }
  // Of one conversation in all dialects, with more fields.
  Json ask(const std::string& path, const Json& more = Json::object()) {
    return post(path, with(same_conversation().at(path), more));
  }

 private:
  TemplateChat chat_;

 public:
  TestServer s;
};

struct Event {
  std::string name;
  Json data;
};

std::vector<Event> named_events(const std::string& body) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < body.size();) {
    const std::size_t end = body.find("\n\n", i);
    EXPECT_NE(end, std::string::npos);
    const std::string event = body.substr(i, end - i);
    i = end + 2;
    const std::size_t line = event.find('\n');
    EXPECT_TRUE(event.starts_with("event: ")) << event;
    events.push_back({event.substr(7, line - 7), Json::parse(event.substr(line + 7))});
    EXPECT_EQ(events.back().name, events.back().data["type"]);
  }
  return events;
}

std::vector<std::string> names_of(const std::vector<Event>& events) {
  std::vector<std::string> names;
  for (const Event& e : events)
    if (names.empty() || names.back() != e.name) names.push_back(e.name);
  return names;
}

TEST(ServerDialects, OnePromptForOneConversation) {
  ThinkingServer server;
  std::vector<std::int32_t> first;
  for (const auto& [path, body] : same_conversation()) {
    server.post(path, body);
    const std::vector<std::int32_t> prompt = server.s.service.requests().back().request.prompt;
    if (first.empty()) first = prompt;
    EXPECT_EQ(prompt, first) << path;
  }
  const Json counted = server.post("/v1/messages/count_tokens", same_conversation().at("/v1/messages"));
  EXPECT_EQ(counted["input_tokens"], first.size());
  EXPECT_EQ(counted["kvasir"]["notes"], Json::array({"tools of the type 'web_search_20250305' are left out"}));
  const Json shown = server.post("/apply-template", same_conversation().at("/v1/chat/completions"));
  EXPECT_EQ(server.post("/tokenize", {{"content", shown["prompt"]}})["tokens"], Json(first));
}

TEST(ServerDialects, ChatsTellReasoningFromContent) {
  ThinkingServer server;
  const Json message = server.ask("/v1/chat/completions")["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Hm, Oslo.");
  EXPECT_EQ(message["content"], "I look.");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], kArguments);
  const Reply r =
      server.s.post("/v1/chat/completions", with(same_conversation().at("/v1/chat/completions"), {{"stream", true}}));
  std::string reasoning, content;
  for (const Json& event : events_of(r.body)) {
    const Json& delta = event["choices"][0]["delta"];
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
  }
  EXPECT_EQ(reasoning, "Hm, Oslo.");
  EXPECT_EQ(content, "I look.");
}

TEST(ServerDialects, Messages) {
  ThinkingServer server;
  const Json answer = server.ask("/v1/messages");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(answer["type"], "message");
  EXPECT_EQ(answer["role"], "assistant");
  EXPECT_EQ(answer["model"], "org/fake-model");
  ASSERT_EQ(answer["content"].size(), 3u) << answer;
  EXPECT_EQ(answer["content"][0].dump(), R"({"type":"thinking","thinking":"Hm, Oslo.","signature":""})");
  EXPECT_EQ(answer["content"][1].dump(), R"({"type":"text","text":"I look."})");
  EXPECT_EQ(answer["content"][2]["input"].dump(), R"({"place":"Oslo"})");
  EXPECT_EQ(answer["content"][2]["name"], "weather");
  EXPECT_EQ(answer["stop_reason"], "tool_use");
  EXPECT_TRUE(answer["stop_sequence"].is_null());
  const auto prompt = static_cast<std::int64_t>(server.s.service.requests().at(0).request.prompt.size());
  EXPECT_EQ(answer["usage"]["input_tokens"], prompt - 9);
  EXPECT_EQ(answer["usage"]["cache_read_input_tokens"], 9);
  EXPECT_EQ(answer["usage"]["output_tokens"], 7);
  EXPECT_EQ(answer["kvasir"]["reused_tokens"], 9);
  EXPECT_EQ(answer["kvasir"]["pinned"], true);
  EXPECT_NE(answer["kvasir"]["notes"].dump().find("web_search_20250305"), std::string::npos);
}

TEST(ServerDialects, StreamedMessages) {
  ThinkingServer server;
  const Reply r = server.s.post("/v1/messages", with(same_conversation().at("/v1/messages"), {{"stream", true}}));
  EXPECT_EQ(r.header("content-type"), "text/event-stream; charset=utf-8");
  const auto events = named_events(r.body);
  const std::vector<std::string> block = {"content_block_start", "content_block_delta", "content_block_stop"};
  std::vector<std::string> expected = {"message_start"};
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), block.begin(), block.end());
  expected.insert(expected.end(), {"message_delta", "message_stop"});
  EXPECT_EQ(names_of(events), expected);
  const Json& started = events[0].data["message"];
  EXPECT_EQ(started["content"].dump(), "[]");
  EXPECT_TRUE(started["stop_reason"].is_null());
  std::map<std::string, std::string> said;
  int index = -1;
  for (const Event& e : events) {
    if (e.name == "content_block_start") {
      EXPECT_EQ(e.data["index"], ++index);
    }
    if (e.name != "content_block_delta") continue;
    EXPECT_EQ(e.data["index"], index);
    const Json& delta = e.data["delta"];
    for (const char* key : {"thinking", "text", "partial_json", "signature"})
      if (delta.contains(key)) said[delta["type"]] += delta[key].get<std::string>();
  }
  EXPECT_EQ(said["thinking_delta"], "Hm, Oslo.");
  EXPECT_EQ(said["text_delta"], "I look.");
  EXPECT_EQ(said["input_json_delta"], kArguments);
  const Json& last = events[events.size() - 2].data;
  EXPECT_EQ(last["delta"].dump(), R"({"stop_reason":"tool_use","stop_sequence":null})");
  EXPECT_EQ(last["usage"]["cache_read_input_tokens"], 9);
  EXPECT_EQ(last["kvasir"]["reused_tokens"], 9);
}

TEST(ServerDialects, MessagesSayWhyTheyEnd) {
  const Json body{{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  ThinkingServer server(speaking({"a ", "b ", "c "}));
  EXPECT_EQ(server.post("/v1/messages", with(body, {{"max_tokens", 2}}))["stop_reason"], "max_tokens");
  EXPECT_EQ(server.post("/v1/messages", body)["stop_reason"], "end_turn");
  const Json stopped = server.post("/v1/messages", with(body, {{"stop_sequences", {"b"}}}));
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "b");
  EXPECT_EQ(stopped["content"][0]["text"], "a ");
}

TEST(ServerDialects, SilentStreamsShowLife) {
  ThinkingServer server(FakeOptions{.delay = 0.4, .tokens = 1}, ServerOptions{.keepalive = 0.05});
  const Json chat{{"stream", true}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
  const auto messages = names_of(named_events(server.s.post("/v1/messages", chat).body));
  ASSERT_GE(messages.size(), 2u);
  EXPECT_EQ(messages[0], "message_start");
  EXPECT_EQ(messages[1], "ping");
  const auto responses = named_events(server.s.post("/v1/responses", {{"stream", true}, {"input", "x"}}).body);
  EXPECT_GE(std::count_if(responses.begin(), responses.end(),
                          [](const Event& e) { return e.name == "response.in_progress"; }),
            2);
  const Reply lines = server.s.post("/api/chat", with(chat, {{"model", "org/fake-model"}}));
  EXPECT_GE(std::count(lines.body.begin(), lines.body.end(), '\n'), 4);
}

TEST(ServerDialects, Responses) {
  ThinkingServer server;
  const Json answer = server.ask("/v1/responses", {{"metadata", {{"k", "v"}}}});
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["instructions"], "You know the weather.");
  EXPECT_EQ(answer["metadata"]["k"], "v");
  EXPECT_TRUE(answer["max_output_tokens"].is_null());
  ASSERT_EQ(answer["output"].size(), 3u) << answer;
  const Json &reasoning = answer["output"][0], &message = answer["output"][1], &call = answer["output"][2];
  EXPECT_EQ(reasoning["type"], "reasoning");
  EXPECT_EQ(reasoning["content"].dump(), R"([{"type":"reasoning_text","text":"Hm, Oslo."}])");
  EXPECT_FALSE(reasoning.contains("encrypted_content"));
  EXPECT_EQ(message["content"][0]["text"], "I look.");
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["arguments"], kArguments);
  EXPECT_EQ(call["status"], "completed");
  EXPECT_TRUE(call["call_id"].get<std::string>().starts_with("call_"));
  EXPECT_EQ(answer["usage"]["input_tokens_details"]["cached_tokens"], 9);
  EXPECT_EQ(answer["usage"]["output_tokens"], 7);
  EXPECT_GT(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(answer["kvasir"]["reused_tokens"], 9);
}

TEST(ServerDialects, StreamedResponses) {
  ThinkingServer server;
  const Reply r = server.s.post(
      "/v1/responses",
      with(same_conversation().at("/v1/responses"), {{"stream", true}, {"include", {"reasoning.encrypted_content"}}}));
  const auto events = named_events(r.body);
  const std::vector<std::string> expected = {"response.created",
                                             "response.in_progress",
                                             "response.output_item.added",
                                             "response.content_part.added",
                                             "response.reasoning_text.delta",
                                             "response.reasoning_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.content_part.added",
                                             "response.output_text.delta",
                                             "response.output_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done",
                                             "response.output_item.done",
                                             "response.completed"};
  EXPECT_EQ(names_of(events), expected);
  std::map<int, std::string> ids;  // of items by their place
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& e = events[i].data;
    EXPECT_EQ(e["sequence_number"], i);
    if (!e.contains("output_index")) continue;
    const std::string id = e.contains("item") ? e["item"]["id"] : e["item_id"];
    const auto [place, is_new] = ids.emplace(e["output_index"].get<int>(), id);
    EXPECT_EQ(place->second, id) << events[i].name;
    EXPECT_EQ(is_new, events[i].name == "response.output_item.added");
  }
  const Json& done = events.back().data["response"];
  EXPECT_EQ(done["id"], events[0].data["response"]["id"]);
  EXPECT_TRUE(events[0].data["response"]["output"].empty());
  ASSERT_EQ(done["output"].size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(done["output"][static_cast<std::size_t>(i)]["id"], ids[i]);
  EXPECT_FALSE(done["output"][0]["encrypted_content"].get<std::string>().empty());
  EXPECT_EQ(done["usage"]["output_tokens"], 7);
}

TEST(ServerDialects, ResponsesAreStoredAndGoneOnFrom) {
  ThinkingServer server(speaking({"The ", "sea."}));
  const Json first = server.post("/v1/responses", {{"instructions", "Be brief."}, {"input", "What is blue?"}});
  const std::string id = first["id"];
  EXPECT_EQ(server.s.ask("GET", "/v1/responses/" + id).json(), first);
  EXPECT_EQ(server.s.ask("GET", "/v1/responses/" + id + "/input_items").json()["data"][0]["content"][0]["text"],
            "What is blue?");
  server.post("/v1/responses", {{"previous_response_id", id}, {"input", "And deep?"}});
  const std::string prompt =
      server.s.service.tokenizer()->decode(server.s.service.requests().back().request.prompt, true);
  EXPECT_EQ(prompt,
            "<|im_start|>user\nWhat is blue?<|im_end|>\n<|im_start|>assistant\nThe sea.<|im_end|>\n"
            "<|im_start|>user\nAnd deep?<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(server.s.ask("DELETE", "/v1/responses/" + id).json()["deleted"], true);
  EXPECT_EQ(server.s.ask("GET", "/v1/responses/" + id).status, 404);
  EXPECT_EQ(server.s.ask("DELETE", "/v1/responses/" + id).status, 404);
  const Json lost = server.post("/v1/responses", {{"previous_response_id", id}, {"input", "x"}}, 400);
  EXPECT_EQ(lost["error"]["code"], "previous_response_not_found");
  const Json unkept = server.post("/v1/responses", {{"input", "x"}, {"store", false}});
  EXPECT_EQ(unkept["store"], false);
  EXPECT_EQ(server.s.ask("GET", "/v1/responses/" + unkept["id"].get<std::string>()).status, 404);
}

TEST(ServerDialects, CutResponsesAreIncomplete) {
  ThinkingServer server(speaking({"a ", "b ", "c "}));
  const Json answer = server.post("/v1/responses", {{"input", "x"}, {"max_output_tokens", 2}});
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(answer["output"][0]["status"], "incomplete");
  const auto events =
      named_events(server.s.post("/v1/responses", {{"input", "x"}, {"max_output_tokens", 2}, {"stream", true}}).body);
  EXPECT_EQ(events.back().name, "response.incomplete");
}

std::vector<Json> lines_of(const std::string& body) {
  std::vector<Json> lines;
  for (std::size_t i = 0; i < body.size();) {
    const std::size_t end = body.find('\n', i);
    EXPECT_NE(end, std::string::npos);
    lines.push_back(Json::parse(body.substr(i, end - i)));
    i = end + 1;
  }
  return lines;
}

TEST(ServerDialects, OllamaChats) {
  ThinkingServer server;
  const Json answer = server.ask("/api/chat");
  EXPECT_EQ(answer["model"], "org/fake-model:latest");
  EXPECT_EQ(answer["message"]["content"], "I look.");
  EXPECT_EQ(answer["message"]["thinking"], "Hm, Oslo.");
  EXPECT_EQ(answer["message"]["tool_calls"][0]["function"]["arguments"]["place"], "Oslo");
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["done_reason"], "stop");
  EXPECT_EQ(answer["eval_count"], 7);
  EXPECT_EQ(answer["prompt_eval_cached_count"], 9);
  for (const char* key :
       {"total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_duration"})
    EXPECT_TRUE(answer[key].is_number_integer()) << key;

  Json body = same_conversation().at("/api/chat");
  body.erase("stream");
  const Reply r = server.s.post("/api/chat", body);
  EXPECT_EQ(r.header("content-type"), "application/x-ndjson");
  std::string content, thinking;
  int calls = 0;
  const auto lines = lines_of(r.body);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["done"], i + 1 == lines.size());
    content += lines[i]["message"]["content"].get<std::string>();
    thinking += lines[i]["message"].value("thinking", "");
    calls += lines[i]["message"].contains("tool_calls");
  }
  EXPECT_EQ(content, "I look.");
  EXPECT_EQ(thinking, "Hm, Oslo.");
  EXPECT_EQ(calls, 1);
}

TEST(ServerDialects, OllamaGenerates) {
  ThinkingServer server(speaking({"a ", "b "}));
  const Json body{{"model", "org/fake-model"}, {"prompt", "x"}, {"system", "s"}};
  const auto lines = lines_of(server.s.post("/api/generate", body).body);
  EXPECT_EQ(lines[0]["response"], "a ");
  EXPECT_EQ(lines.back()["done_reason"], "stop");
  EXPECT_EQ(server.post("/api/generate", with(body, {{"stream", false}}))["response"], "a b ");
  EXPECT_EQ(server.s.service.tokenizer()->decode(server.s.service.requests().back().request.prompt, true),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(server.post("/api/generate", with(body, {{"stream", false}, {"raw", true}}))["response"], "a b ");
  EXPECT_EQ(server.s.service.tokenizer()->decode(server.s.service.requests().back().request.prompt, true), "x");
  EXPECT_EQ(server.post("/api/generate", {{"model", "org/fake-model"}})["done_reason"], "load");
}

TEST(ServerDialects, OllamaDescribesTheModel) {
  ThinkingServer server;
  const Json tags = server.s.ask("GET", "/api/tags").json();
  ASSERT_EQ(tags["models"].size(), 1u);
  EXPECT_EQ(tags["models"][0]["name"], "org/fake-model:latest");
  EXPECT_EQ(tags["models"][0]["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(server.s.ask("GET", "/api/ps").json()["models"][0]["context_length"], 4096);
  EXPECT_TRUE(server.s.ask("GET", "/api/version").json()["version"].is_string());
  const Json shown = server.post("/api/show", {{"model", "org/fake-model"}});
  EXPECT_EQ(shown["template"], kThinkingTemplate);
  EXPECT_EQ(shown["model_info"]["fake.context_length"], 4096);
  EXPECT_EQ(shown["capabilities"].dump(), R"(["completion","tools","thinking"])");
  EXPECT_EQ(server.post("/api/show", {{"model", "other"}}, 404).dump(), R"({"error":"model 'other' not found"})");
}

TEST(ServerDialects, WhatLlamaCppsToolsAsk) {
  ThinkingServer server;
  const Json props = server.s.ask("GET", "/props").json();
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(props["chat_template"], kThinkingTemplate);
  EXPECT_EQ(props["total_slots"], 2);
  const Json slots = server.s.ask("GET", "/slots").json();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0]["is_processing"], false);
  EXPECT_EQ(server.s.ask("POST", "/slots").status, 405);
}

TEST(ServerDialects, ErrorsHaveTheDialectsShape) {
  ThinkingServer server;
  const Json anthropic = server.post("/v1/messages", {{"max_tokens", 1}}, 400);
  EXPECT_EQ(
      anthropic.dump(),
      R"({"type":"error","error":{"type":"invalid_request_error","message":"'messages': is missing","param":"messages","code":"missing_required_parameter"}})");
  EXPECT_EQ(server.s.ask("POST", "/v1/messages/count_tokens", "{").json()["type"], "error");
  EXPECT_EQ(server.s.ask("GET", "/v1/messages").json()["error"]["type"], "invalid_request_error");
  EXPECT_EQ(server.s.ask("POST", "/api/chat", "{").json()["error"].type(), Json::value_t::string);
  EXPECT_EQ(server.post("/v1/responses", Json::object(), 400)["error"]["param"], "input");
  ThinkingServer failing([] {
    FakeOptions o = speaking();
    o.fail = "the engine broke";
    return o;
  }());
  const Json chat{{"model", "org/fake-model"}, {"stream", true}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
  const auto messages = named_events(failing.s.post("/v1/messages", chat).body);
  EXPECT_EQ(messages.back().name, "error");
  EXPECT_EQ(messages.back().data["error"]["type"], "api_error");
  const auto responses = named_events(failing.s.post("/v1/responses", {{"input", "x"}, {"stream", true}}).body);
  EXPECT_EQ(responses.back().name, "response.failed");
  EXPECT_EQ(responses.back().data["response"]["error"]["message"], "the engine broke");
  EXPECT_EQ(lines_of(failing.s.post("/api/chat", chat).body).back()["error"], "the engine broke");
}

TEST(ServerDialects, KeysAndHostsAreCheckedOnEveryRoute) {
  const std::string file = testing::TempDir() + "/dialect_keys";
  std::ofstream(file) << "alpha first\nbeta second\n";
  ThinkingServer server(speaking(), ServerOptions{.api_key_file = file});
  for (const Entry<Route>& entry : all_routes()) {
    if (entry.value->open) continue;
    std::string path(entry.value->path);
    if (const std::size_t brace = path.find('{'); brace != path.npos) path = path.substr(0, brace) + "x";
    EXPECT_EQ(server.s.ask(entry.value->method, path, "{}").status, 401) << path;
    EXPECT_EQ(
        server.s.ask(entry.value->method, path, "{}", "Authorization: Bearer beta\r\nOrigin: http://evil.example\r\n")
            .status,
        403)
        << path;
  }
  EXPECT_EQ(server.s.ask("POST", "/v1/messages", "{}").json()["error"]["type"], "authentication_error");
  EXPECT_EQ(server.s.ask("POST", "/v1/messages", "{}", "X-Api-Key: wrong\r\n").status, 401);
  EXPECT_EQ(server.s.ask("POST", "/v1/messages", "{}", "X-Api-Key: alpha\r\n").status, 400);
  // What one tenant stored is not there for another.
  const Json stored =
      server.s.ask("POST", "/v1/responses", R"({"input": "x"})", "Authorization: Bearer alpha\r\n").json();
  const std::string path = "/v1/responses/" + stored["id"].get<std::string>();
  EXPECT_EQ(server.s.ask("GET", path, "", "Authorization: Bearer beta\r\n").status, 404);
  EXPECT_EQ(server.s.ask("GET", path, "", "Authorization: Bearer alpha\r\n").status, 200);
}

}  // namespace
}  // namespace kvasir::serve
