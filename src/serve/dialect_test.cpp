// Dialects without a network: one conversation in all of them is one prompt, and what is refused is named.
#include "serve/dialect.hpp"

#include <gtest/gtest.h>

#include <set>

#include "serve/bodies_fixture.hpp"
#include "serve/conversation_fixture.hpp"
#include "serve/families/anthropic.hpp"
#include "serve/families/billing_line.hpp"
#include "serve/families/ollama.hpp"
#include "serve/families/responses.hpp"
#include "serve/response_memory.hpp"
#include "serve/route.hpp"

namespace kvasir::serve {
namespace {

const RequestLimits kLimits{.vocabulary = 300, .choices = 8, .model = "org/fake-model"};

ApiRequest parse(const std::string& path, const Json& body, const RequestLimits& limits = kLimits) {
  return find_dialect(path)->parse(body, limits);
}

std::string prompt_of(const std::string& path, const Json& body, const RequestLimits& limits = kLimits) {
  return thinking_chat().render(parse(path, body, limits).chat);
}

TEST(Dialects, OneConversationIsOnePrompt) {
  const std::map<std::string, Json> all = same_conversation();
  const std::string expected = prompt_of("/v1/chat/completions", all.at("/v1/chat/completions"));
  EXPECT_NE(expected.find("<think>\nThey ask for Oslo.\n</think>\n\nI look.<tool_call>\n{\"name\": \"weather\", "
                          "\"arguments\": {\"place\": \"Oslo\", \"days\": [1, 2]}}\n</tool_call><|im_end|>\n"
                          "<|im_start|>tool\ngrey<|im_end|>\n"),
            std::string::npos)
      << expected;
  for (const auto& [path, body] : all) EXPECT_EQ(prompt_of(path, body), expected) << path;
}

// A dialect that takes chats has to show that it takes this one.
TEST(Dialects, EachHasItsPathAndItsConversation) {
  std::set<std::string_view> paths;
  const std::map<std::string, Json> all = same_conversation();
  for (const Entry<Dialect>& entry : dialects()) {
    const Dialect& d = *entry.value;
    EXPECT_TRUE(paths.insert(d.path).second) << d.path;
    EXPECT_EQ(find_dialect(d.path), &d);
    EXPECT_EQ(find_route("POST", d.path, nullptr).entry->name, entry.name);
    const bool of_texts = d.path == "/v1/completions" || d.path == "/v1/warm" || d.path == "/api/generate" ||
                          d.path == "/completion" || d.path == "/infill";
    EXPECT_TRUE(of_texts || all.contains(std::string(d.path))) << entry.name;
    EXPECT_TRUE(Json::accept(dump(error_shape(d.path)({.message = "wrong", .param = "x"}))));
  }
}

TEST(Dialects, ChoicesOfToolsAreTheSame) {
  const std::map<std::string, Json> all = same_conversation();
  const Json named{{"type", "function"}, {"function", {{"name", "weather"}}}};
  const std::vector<std::pair<std::string, Json>> required = {
      {"/v1/chat/completions", {{"tool_choice", "required"}, {"parallel_tool_calls", false}}},
      {"/v1/messages", {{"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}}}},
      {"/v1/responses", {{"tool_choice", "required"}, {"parallel_tool_calls", false}}}};
  const std::vector<std::pair<std::string, Json>> one = {
      {"/v1/chat/completions", {{"tool_choice", named}}},
      {"/v1/messages", {{"tool_choice", {{"type", "tool"}, {"name", "weather"}}}}},
      {"/v1/responses", {{"tool_choice", {{"type", "function"}, {"name", "weather"}}}}}};
  const std::vector<std::pair<std::string, Json>> none = {{"/v1/chat/completions", {{"tool_choice", "none"}}},
                                                          {"/v1/messages", {{"tool_choice", {{"type", "none"}}}}},
                                                          {"/v1/responses", {{"tool_choice", "none"}}}};
  for (const auto& [path, more] : required) {
    const ApiRequest r = parse(path, with(all.at(path), more));
    EXPECT_EQ(r.chat.must_call, "") << path;
    EXPECT_TRUE(r.chat.one_call) << path;
  }
  for (const auto& [path, more] : one)
    EXPECT_EQ(parse(path, with(all.at(path), more)).chat.must_call, "weather") << path;
  for (const auto& [path, more] : none) {  // the prompt stays the same
    const ChatInput chat = parse(path, with(all.at(path), more)).chat;
    EXPECT_TRUE(chat.has_tools() && !chat.calls()) << path;
  }
}

TEST(Dialects, ThinkingIsAskedForInEach) {
  const std::map<std::string, Json> all = same_conversation();
  const auto extra = [&](const char* path, const Json& more) {
    return parse(path, with(all.at(path), more)).chat.extra;
  };
  const std::pair<const char*, Json> off[] = {{"/v1/chat/completions", {{"reasoning_effort", "none"}}},
                                              {"/v1/messages", {{"thinking", {{"type", "disabled"}}}}},
                                              {"/v1/responses", {{"reasoning", {{"effort", "none"}}}}},
                                              {"/api/chat", {{"think", false}}}};
  for (const auto& [path, more] : off) EXPECT_EQ(extra(path, more)["enable_thinking"], false) << path;
  const std::pair<const char*, Json> high[] = {{"/v1/chat/completions", {{"reasoning_effort", "high"}}},
                                               {"/v1/messages", {{"output_config", {{"effort", "high"}}}}},
                                               {"/v1/responses", {{"reasoning", {{"effort", "high"}}}}},
                                               {"/api/chat", {{"think", "high"}}}};
  for (const auto& [path, more] : high) {
    EXPECT_EQ(extra(path, more)["enable_thinking"], true) << path;
    EXPECT_EQ(extra(path, more)["reasoning_effort"], "high") << path;
  }
  EXPECT_EQ(extra("/v1/chat/completions", {{"reasoning_effort", "none"},
                                           {"chat_template_kwargs", {{"enable_thinking", true}}}})["enable_thinking"],
            true);
  EXPECT_THROW(extra("/v1/chat/completions", {{"reasoning_effort", "fierce"}}), ApiException);
}

std::string refused(const std::string& path, const Json& body) {
  try {
    parse(path, body);
  } catch (const ApiException& e) {
    return e.error().param;
  }
  return "accepted";
}

TEST(Dialects, WhatIsRefusedIsNamed) {
  const auto message = [](const Json& content) {
    return Json{
        {"model", "org/fake-model"}, {"max_tokens", 1}, {"messages", {{{"role", "user"}, {"content", content}}}}};
  };
  EXPECT_EQ(refused("/v1/messages", message({{{"type", "image"}, {"source", Json::object()}}})),
            "messages[0].content[0].source.type");
  EXPECT_EQ(refused("/v1/messages", message({{{"type", "text"}}})), "messages[0].content[0].text");
  EXPECT_EQ(refused("/v1/messages", {{"messages", {{{"role", "bishop"}, {"content", "x"}}}}}), "messages[0].role");
  EXPECT_EQ(refused("/v1/messages", {{"max_tokens", 1}}), "messages");
  EXPECT_EQ(refused("/v1/messages", with(message("x"), {{"model", "claude"}})), "model");
  EXPECT_EQ(refused("/v1/messages", with(message("x"), {{"thinking", {{"type", "often"}}}})), "thinking.type");
  EXPECT_EQ(refused("/v1/messages", with(message("x"), {{"temperature", "warm"}})), "temperature");
  EXPECT_EQ(refused("/v1/responses", {{"model", "org/fake-model"}}), "input");
  EXPECT_EQ(refused("/v1/responses", {{"input", Json::array()}}), "input");
  EXPECT_EQ(refused("/v1/responses", {{"input", "x"}, {"background", true}}), "background");
  EXPECT_EQ(refused("/v1/responses", {{"input", "x"}, {"previous_response_id", "resp_0"}}), "previous_response_id");
  EXPECT_EQ(refused("/v1/responses", {{"input", {{{"type", "item_reference"}, {"id", "msg_1"}}}}}), "input[0].type");
  EXPECT_EQ(refused("/v1/responses", {{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}}}}),
            "input[0].content[0].image_url");
  EXPECT_EQ(refused("/v1/responses", {{"input", {{{"type", "function_call"}, {"name", "f"}}}}}), "input[0].call_id");
  EXPECT_EQ(refused("/api/chat", {{"messages", Json::array()}}), "model");
  EXPECT_EQ(refused("/api/chat", {{"model", "another"}, {"messages", Json::array()}}), "model");
  EXPECT_EQ(refused("/infill", Json::object()), "input_prefix");
  EXPECT_EQ(refused("/infill", {{"prompt", "x"}, {"input_extra", {{{"filename", "a"}}}}}), "input_extra[0].text");
  EXPECT_EQ(refused("/completion", {{"n_predict", 3}}), "prompt");
  EXPECT_EQ(refused("/completion", {{"prompt", "x"}, {"n_predict", -3}}), "n_predict");
  EXPECT_EQ(refused("/v1/responses", {{"input", "x"}, {"truncation", "some"}}), "truncation");
  EXPECT_EQ(refused("/api/generate", {{"model", "org/fake-model"}, {"prompt", "x"}, {"images", {"aGk="}}}),
            "images[0]");
  EXPECT_EQ(refused("/api/chat", with(message("x"), {{"format", 3}})), "format");
  EXPECT_EQ(refused("/api/chat", with(message("x"), {{"think", 3}})), "think");
}

// What was translated before it was checked goes by the client's names.
TEST(Dialects, ErrorsNameTheClientsFields) {
  const Json user{{"role", "user"}, {"content", "x"}};
  const Json body{{"model", "org/fake-model"}, {"messages", {user}}};
  EXPECT_EQ(refused("/v1/messages", with(body, {{"stop_sequences", {1}}})), "stop_sequences");
  const Json tool{{"name", "f"}};
  EXPECT_EQ(refused("/v1/messages", with(body, {{"tools", {{{"type", "web_search"}}, tool}},
                                                {"tool_choice", {{"type", "tool"}, {"name", "g"}}}})),
            "tool_choice.name");
  EXPECT_EQ(refused("/v1/responses", {{"input", "x"}, {"max_output_tokens", 0}}), "max_output_tokens");
  EXPECT_EQ(refused("/v1/responses", {{"input", "x"},
                                      {"tools", {{{"type", "function"}, {"name", "f"}}}},
                                      {"tool_choice", {{"type", "function"}, {"name", "g"}}}}),
            "tool_choice.name");
  EXPECT_EQ(refused("/v1/responses", {{"input", "x"}, {"text", {{"format", {{"type", "xml"}}}}}}), "text.format.type");
  EXPECT_EQ(refused("/api/chat", with(body, {{"options", {{"temperature", "warm"}}}})), "options.temperature");
  EXPECT_EQ(refused("/api/chat", with(body, {{"options", {{"repeat_penalty", -1}}}})), "options.repeat_penalty");
  EXPECT_EQ(refused("/api/generate", {{"model", "org/fake-model"}, {"prompt", "x"}, {"options", {{"stop", 3}}}}),
            "options.stop");
}

TEST(Dialects, PlacesOfMessagesAreTheClients) {
  const auto name = [](const std::string& path, const Json& body, const char* field) {
    return parse(path, body).names.client(field);
  };
  const Json user{{"role", "user"}, {"content", "x"}};
  const Json call{{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}};
  const Json think{{"type", "reasoning"}, {"content", {{{"type", "reasoning_text"}, {"text", "t"}}}}};
  const Json items{{"instructions", "i"}, {"input", {user, think, call, user}}};
  EXPECT_EQ(name("/v1/responses", items, "messages[0].role"), "instructions");
  EXPECT_EQ(name("/v1/responses", items, "messages[1].role"), "input[0].role");
  EXPECT_EQ(name("/v1/responses", items, "messages[2].content"), "input[1].content");
  EXPECT_EQ(name("/v1/responses", items, "messages[3].role"), "input[3].role");
  EXPECT_EQ(name("/v1/responses", items, "messages"), "input");
  const Json result{{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", "y"}};
  const Json blocks{{"model", "org/fake-model"},
                    {"system", "s"},
                    {"messages", {user, {{"role", "user"}, {"content", {result, {{"type", "text"}, {"text", "z"}}}}}}}};
  EXPECT_EQ(name("/v1/messages", blocks, "messages[0]"), "system");
  EXPECT_EQ(name("/v1/messages", blocks, "messages[1].role"), "messages[0].role");
  EXPECT_EQ(name("/v1/messages", blocks, "messages[2]"), "messages[1].content[0]");
  EXPECT_EQ(name("/v1/messages", blocks, "messages[3].role"), "messages[1].role");
  const Json generate{{"model", "org/fake-model"}, {"system", "s"}, {"prompt", "p"}};
  EXPECT_EQ(name("/api/generate", generate, "messages[0].content"), "system");
  EXPECT_EQ(name("/api/generate", generate, "messages[1].content"), "prompt");
  EXPECT_EQ(name("/v1/chat/completions", {{"messages", {user}}}, "messages[0].role"), "messages[0].role");

  FieldNames names;
  names.add("messages", "input");
  names.add("messages[1]", "input[4]");
  const auto words = [&](const char* param, const char* message) {
    const ApiError error = names.in_client_words({.message = message, .param = param});
    return error.param + "|" + error.message;
  };
  EXPECT_EQ(words("messages[1].role", "'messages[1].role': no"), "input[4].role|'input[4].role': no");
  EXPECT_EQ(words("messages[1].role", "messages[1].role: no"), "input[4].role|input[4].role: no");
  EXPECT_EQ(words("messages[12].role", "no"), "input[12].role|no");
  EXPECT_EQ(words("messages", "However, 'messages' has 9"), "input|However, 'input' has 9");
  EXPECT_EQ(words("messages_too", "'messages_too'"), "messages_too|'messages_too'");
}

TEST(Dialects, BillingLinesAreSettled) {
  const auto settled = [](std::string text) { return settle_billing_line(text) ? text : "none"; };
  EXPECT_EQ(settled("x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;\nYou are"),
            "x-anthropic-billing-header: cc_version=2.1.100.000; cc_entrypoint=cli; cch=00000;\nYou are");
  EXPECT_EQ(settled("x-anthropic-billing-header: cc_version=2.1.100; cch=1\ncch=eb6c6;"),
            "x-anthropic-billing-header: cc_version=2.1.100; cch=0\ncch=eb6c6;");
  EXPECT_EQ(settled("x-anthropic-billing-header:"), "x-anthropic-billing-header:");
  EXPECT_EQ(settled("You are\nx-anthropic-billing-header: cch=eb6c6;"), "none");
  const auto body = [](const char* hash) {
    return Json{{"system",
                 {{{"type", "text"}, {"text", std::string("x-anthropic-billing-header: cch=") + hash + ";"}},
                  {{"type", "text"}, {"text", "You are an agent."}}}},
                {"messages", {{{"role", "user"}, {"content", "cch=12345;"}}}}};
  };
  const ApiRequest one = parse("/v1/messages", body("eb6c6"));
  ASSERT_EQ(one.notes.size(), 1u);
  EXPECT_NE(one.notes[0].find("billing line"), std::string::npos);
  EXPECT_EQ(prompt_of("/v1/messages", body("eb6c6")), prompt_of("/v1/messages", body("11111")));
  EXPECT_NE(prompt_of("/v1/messages", body("eb6c6")).find("cch=12345;"), std::string::npos);
  RequestLimits kept = kLimits;
  kept.keep_billing_line = true;
  EXPECT_NE(prompt_of("/v1/messages", body("eb6c6"), kept), prompt_of("/v1/messages", body("11111"), kept));
  EXPECT_TRUE(parse("/v1/messages", body("eb6c6"), kept).notes.empty());
}

TEST(Dialects, CacheControlPinsForItsTime) {
  const std::map<std::string, Json> all = same_conversation();
  const ApiRequest short_life = parse("/v1/messages", all.at("/v1/messages"));
  EXPECT_TRUE(short_life.service.pin);
  EXPECT_EQ(short_life.service.pin_seconds, 300);
  const Json block{{"type", "text"}, {"text", "x"}, {"cache_control", {{"type", "ephemeral"}, {"ttl", "1h"}}}};
  const ApiRequest long_life =
      parse("/v1/messages", {{"messages", {{{"role", "user"}, {"content", Json::array({block})}}}}});
  EXPECT_EQ(long_life.service.pin_seconds, 3600);
  EXPECT_FALSE(parse("/v1/messages", {{"messages", {{{"role", "user"}, {"content", "x"}}}}}).service.pin);
}

TEST(Dialects, MessagesOfTheAssistantAreContinued) {
  const Json body{
      {"messages",
       {{{"role", "user"}, {"content", "Name a sea."}}, {{"role", "assistant"}, {"content", "The North"}}}}};
  EXPECT_TRUE(prompt_of("/v1/messages", body).ends_with("assistant\nThe North"));
}

// What is added between turns stays where it was said.
TEST(Dialects, LateSystemMessagesStayInPlace) {
  const Json body{{"system", "first"},
                  {"messages",
                   {{{"role", "user"}, {"content", "a"}},
                    {{"role", "system"}, {"content", "late"}},
                    {{"role", "user"}, {"content", "b"}}}}};
  const std::string prompt = prompt_of("/v1/messages", body);
  EXPECT_LT(prompt.find("<|im_start|>user\na"), prompt.find("<|im_start|>system\nlate"));
  EXPECT_LT(prompt.find("<|im_start|>system\nlate"), prompt.find("<|im_start|>user\nb"));
}

TEST(Dialects, SealedReasoningComesBack) {
  const Json input =
      Json::array({{{"role", "user"}, {"content", "x"}},
                   {{"type", "reasoning"}, {"summary", Json::array()}, {"encrypted_content", seal_reasoning("deep ö")}},
                   {{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}},
                   {{"type", "function_call_output"}, {"call_id", "c"}, {"output", "y"}}});
  EXPECT_NE(prompt_of("/v1/responses", {{"input", input}}).find("<think>\ndeep ö\n</think>"), std::string::npos);
  Json foreign = input;
  foreign[1]["encrypted_content"] = "gAAAAABnothing-of-ours";
  EXPECT_EQ(prompt_of("/v1/responses", {{"input", foreign}}).find("<think>"), std::string::npos);
}

TEST(Dialects, ToolsInNamespacesAreCalledByTheirNames) {
  const Json tools =
      Json::array({{{"type", "namespace"},
                    {"name", "mail"},
                    {"tools", {{{"type", "function"}, {"name", "send"}}, {{"type", "custom"}, {"name", "x"}}}}}});
  const ApiRequest r = parse("/v1/responses", {{"input", "x"}, {"tools", tools}});
  EXPECT_EQ(r.chat.tools.dump(), R"([{"type":"function","function":{"name":"send"}}])");
  EXPECT_EQ(r.dialect["namespaces"].dump(), R"({"send":"mail"})");
  EXPECT_EQ(r.notes.at(0), "tools of the type 'custom' are left out");
}

TEST(Dialects, OllamasDefaultsAndOptions) {
  const ApiRequest plain = parse("/api/generate", {{"model", "org/fake-model"}, {"prompt", "x"}});
  EXPECT_FLOAT_EQ(plain.service.request.sampling.temperature, 0.8f);
  EXPECT_EQ(plain.service.request.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(plain.service.request.sampling.top_p, 0.9f);
  EXPECT_EQ(plain.service.request.max_tokens, -1);
  EXPECT_TRUE(plain.stream);
  EXPECT_TRUE(plain.is_chat);
  const ApiRequest raw =
      parse("/api/generate",
            {{"model", "org/fake-model:latest"},
             {"prompt", "x"},
             {"raw", true},
             {"stream", false},
             {"options", {{"num_predict", 7}, {"temperature", 0}, {"repeat_penalty", 1.5}, {"stop", {"a"}}}}});
  EXPECT_FALSE(raw.is_chat);
  EXPECT_EQ(raw.prompts.at(0).text, "x");
  EXPECT_EQ(raw.service.request.max_tokens, 7);
  EXPECT_EQ(raw.service.request.sampling.temperature, 0);
  EXPECT_EQ(raw.service.request.stop.at(0), "a");
  EXPECT_EQ(
      parse("/api/generate", {{"model", "org/fake-model"}, {"prompt", "x"}, {"raw", true}}).service.request.max_tokens,
      -1);
  const Json loaded = parse("/api/chat", {{"model", "org/fake-model"}, {"messages", Json::array()}}).ready;
  EXPECT_EQ(loaded["done_reason"], "load");
  EXPECT_NE(
      parse("/api/chat",
            {{"model", "org/fake-model"}, {"format", "json"}, {"messages", {{{"role", "user"}, {"content", "x"}}}}})
          .service.request.grammar,
      nullptr);
}

TEST(Dialects, BudgetsOfThinkingHaveOneMeaning) {
  const Json ask{{"model", "org/fake-model"}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
  const auto budget = [&](const std::string& path, const Json& more) {
    return parse(path, path == "/v1/responses" ? with({{"input", "x"}}, more) : with(ask, more)).thinking_budget;
  };
  EXPECT_EQ(budget("/v1/chat/completions", Json::object()), -1);
  EXPECT_EQ(budget("/v1/chat/completions", {{"thinking_budget", 0}}), 0);
  EXPECT_EQ(budget("/v1/chat/completions", {{"reasoning", {{"max_tokens", 64}}}}), 64);
  EXPECT_EQ(budget("/v1/chat/completions", {{"thinking", {{"type", "enabled"}, {"budget_tokens", 65}}}}), 65);
  EXPECT_EQ(budget("/v1/responses", {{"reasoning", {{"max_tokens", 66}, {"effort", "low"}}}}), 66);
  EXPECT_EQ(budget("/v1/messages", {{"max_tokens", 9}, {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}}),
            1024);
  EXPECT_EQ(budget("/v1/messages", {{"max_tokens", 9}, {"thinking", {{"type", "adaptive"}}}}), -1);
}

TEST(Dialects, ThinkingEndsAsTheTemplateWritesIt) {
  const ChatFormat::ThinkingEnd end = thinking_chat().thinking_end({});
  ASSERT_TRUE(end.marks.has_value());
  EXPECT_EQ(end.text, "\n</think>\n\n");
  EXPECT_FALSE(TemplateChat(text::ChatTemplate("{{ messages[0].content }}", "", "")).thinking_end({}).marks);
}

TEST(Dialects, NoLimitIsMinusOne) {
  for (const auto& [path, name] : {std::pair{"/v1/completions", "max_tokens"},
                                   {"/v1/completions", "n_predict"},
                                   {"/completion", "n_predict"},
                                   {"/infill", "n_predict"}}) {
    EXPECT_EQ(parse(path, {{"prompt", "x"}, {name, -1}}).service.request.max_tokens, -1) << path << name;
    EXPECT_EQ(parse(path, {{"prompt", "x"}, {name, 7}}).service.request.max_tokens, 7) << path << name;
    EXPECT_THROW(parse(path, {{"prompt", "x"}, {name, -2}}), ApiException) << path << name;
  }
  const Json ask{{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  EXPECT_EQ(parse("/v1/chat/completions", with(ask, {{"max_tokens", -1}})).service.request.max_tokens, -1);
  EXPECT_THROW(parse("/v1/chat/completions", with(ask, {{"max_tokens", 0}})), ApiException);
  EXPECT_EQ(parse("/completion", {{"prompt", "x"}}).service.request.max_tokens, -1);
}

TEST(Dialects, WhatDoesNotHoldIsWarnedOf) {
  const auto warnings = [](const std::string& path, const Json& body) { return parse(path, body).warnings; };
  const Json ask{{"model", "org/fake-model"}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
  EXPECT_EQ(warnings("/api/chat", with(ask, {{"options", {{"num_ctx", 9}, {"seed", 1}}}})),
            (std::vector<std::string>{"'options.num_ctx' does nothing: it is the server's to set"}));
  EXPECT_TRUE(warnings("/api/chat", with(ask, {{"options", {{"num_predict", 9}, {"top_k", 1}}}})).empty());
  EXPECT_TRUE(warnings("/v1/responses", {{"input", "x"}, {"truncation", "disabled"}}).empty());
  EXPECT_EQ(
      warnings("/v1/responses", {{"input", "x"}, {"truncation", "auto"}, {"max_tool_calls", 1}, {"top_logprobs", 2}}),
      (std::vector<std::string>{"'max_tool_calls' does nothing: the client makes all calls"}));
  const Json body{{"input", "x"}, {"store", true}};
  EXPECT_EQ(warnings("/v1/responses", body).size(), 1u) << "no memory is given";
  EXPECT_FALSE(parse("/v1/responses", body).dialect["store"].get<bool>());
}

TEST(Dialects, TimesAreWrittenAsRfc3339) { EXPECT_EQ(rfc3339(1764095400.25), "2025-11-25T18:30:00.250000Z"); }

TEST(ResponseMemory, KeepsWhatFitsAndForgetsTheOldest) {
  ResponseMemory memory(3000);
  const auto stored = [](char c) { return ResponseMemory::Stored{std::string(800, c), "r", "i"}; };
  memory.put("t", "a", stored('a'));
  memory.put("t", "b", stored('b'));
  EXPECT_EQ(memory.find("t", "a")->messages, std::string(800, 'a'));  // and so b is the oldest
  EXPECT_FALSE(memory.find("other", "a"));
  memory.put("t", "c", stored('c'));
  EXPECT_FALSE(memory.find("t", "b"));
  EXPECT_TRUE(memory.find("t", "a") && memory.find("t", "c"));
  EXPECT_LE(memory.bytes(), 3000);
  EXPECT_FALSE(memory.put("t", "huge", {std::string(5000, 'x'), "", ""}));
  EXPECT_TRUE(memory.find("t", "a"));
  EXPECT_TRUE(memory.erase("t", "a"));
  EXPECT_FALSE(memory.erase("t", "a"));
  EXPECT_TRUE(memory.erase("t", "c"));
  EXPECT_EQ(memory.bytes(), 0);
}

}  // namespace
}  // namespace kvasir::serve
