#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/test_data_fixture.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"
#include "text/parse_tool_calls_fixture.hpp"

namespace kvasir::text {
namespace chat_templates_test {

const std::string kData = fixture::test_data("templates");

// Templates of real models, with what jinja2 renders (shared/data/README.md).
class RealTemplates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kData)) GTEST_SKIP() << kData << " is not there";
    for (const auto& file : std::filesystem::directory_iterator(kData))
      all_.push_back(Json::parse(read_text_file(file.path().string())));
    ASSERT_GE(all_.size(), 20u);
    options_.clock = [] {
      std::tm t{};  // 2026-07-26 09:05, the `now` of all files
      t.tm_year = 126;
      t.tm_mon = 6;
      t.tm_mday = 26;
      t.tm_hour = 9;
      t.tm_min = 5;
      return t;
    };
  }

  std::vector<Json> all_;
  jinja::RenderOptions options_;
};

TEST_F(RealTemplates, RenderAsJinja2Does) {
  int texts = 0, errors = 0;
  for (const Json& file : all_) {
    const jinja::Template t(file["template"].get<std::string>());
    for (const Json& c : file["cases"]) {
      const std::string where = file["name"].get<std::string>() + " " + c["case"].get<std::string>();
      try {
        const std::string text = t.render(c["context"], options_);
        // Lists may grow here, as in llama.cpp; jinja2's sandbox refuses that.
        if (c.contains("error") && c["message"].get<std::string>().ends_with("is unsafe.")) continue;
        ASSERT_TRUE(c.contains("expected")) << where;
        EXPECT_EQ(text, c["expected"].get<std::string>()) << where;
        ++texts;
      } catch (const Error& e) {
        ASSERT_TRUE(c.contains("error")) << where << ": " << e.what();
        EXPECT_EQ(e.message(), c["message"].get<std::string>()) << where;
        ++errors;
      }
    }
  }
  EXPECT_GE(texts, 164);
  EXPECT_GE(errors, 15);
}

// gpt-oss knows three words; what others ask for becomes the nearest one, and is said.
TEST_F(RealTemplates, EffortOfReasoning) {
  for (const Json& file : all_) {
    if (file["name"] != "openai-gpt-oss-120b") continue;
    const ChatTemplate chat(file["template"].get<std::string>(), "", "", options_);
    EXPECT_TRUE(chat.shows_thinking());
    const auto asked = [&](Json extra, const std::string& word, std::size_t warnings) {
      Conversation c{.messages = Json::array({{{"role", "user"}, {"content", "hi"}}}), .extra = std::move(extra)};
      EXPECT_NE(chat.render(c).find("Reasoning: " + word + "\n"), std::string::npos) << c.extra;
      EXPECT_EQ(chat.warnings(c).size(), warnings) << c.extra;
    };
    asked(Json::object(), "medium", 0);
    for (const char* word : {"low", "medium", "high"}) asked({{"reasoning_effort", word}}, word, 0);
    asked({{"reasoning_effort", "minimal"}}, "low", 1);
    asked({{"reasoning_effort", "max"}, {"enable_thinking", true}}, "high", 1);
    asked({{"enable_thinking", false}}, "medium", 1);
    asked({{"enable_thinking", true}}, "medium", 0);
    return;
  }
  FAIL() << "there is no gpt-oss";
}

// Bringing messages into a template's form changes nothing where they have it, and JSON text of arguments gives what
// objects give.
TEST_F(RealTemplates, AdaptedConversations) {
  for (const Json& file : all_) {
    for (const Json& c : file["cases"]) {
      if (!c.contains("expected") || c["case"] == "empty_messages") continue;
      Json context = c["context"];
      const ChatTemplate t(file["template"].get<std::string>(), context["bos_token"].get<std::string>(),
                           context["eos_token"].get<std::string>(), options_);
      Conversation conversation;
      conversation.messages = context["messages"];
      if (context.contains("tools")) conversation.tools = context["tools"];
      conversation.add_generation_prompt = context["add_generation_prompt"].get<bool>();
      for (const char* name : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
        context.erase(name);
      conversation.extra = context;
      // What a template does not show is said in words.
      const bool words = (!conversation.tools.is_null() && !t.traits().shows_tools()) || !t.traits().shows_calls ||
                         !t.traits().shows_results;
      if (words && c["case"].get<std::string>().starts_with("tool")) continue;
      const std::string where = file["name"].get<std::string>() + " " + c["case"].get<std::string>();
      EXPECT_EQ(t.render(conversation), c["expected"].get<std::string>()) << where;
      for (Json& message : conversation.messages) {
        if (!message.contains("tool_calls")) continue;
        Json& arguments = message["tool_calls"][0]["function"]["arguments"];
        arguments = arguments.dump();
      }
      EXPECT_EQ(t.render(conversation), c["expected"].get<std::string>()) << where << ", arguments as text";
    }
  }
}

TEST_F(RealTemplates, ToolForms) {
  const std::map<std::string, std::string> forms = {{"Apertus", "apertus"},
                                                    {"GLM", "glm"},
                                                    {"Kimi", "kimi"},
                                                    {"LFM2", "lfm2"},
                                                    {"Mistral-Small", "mistral"},
                                                    {"Hermes-3", "hermes"},
                                                    {"Qwen2.5", "hermes"},
                                                    {"Qwen3-0.6B", "hermes"},
                                                    {"Qwen3-Coder", "qwen3_coder"},
                                                    {"deepseek", "deepseek"},
                                                    {"gemma-4", "gemma4"},
                                                    {"granite", "granite"},
                                                    {"meta-llama", "llama3"},
                                                    {"Mistral-Nemo", "mistral_list"},
                                                    {"gpt-oss", "gpt_oss"}};
  for (const Json& file : all_) {
    const std::string name = file["name"].get<std::string>();
    std::string expected = "none";
    for (const auto& [part, form] : forms)
      if (name.find(part) != name.npos) expected = form;
    const auto* form = find_tool_form(file["template"].get<std::string>());
    EXPECT_EQ(form ? std::string(form->name) : "none", expected) << name;
  }
}

// The reader of tool calls reads what the template wrote, and what was generated is taken back: two calls and their
// results reach the model, whatever the template has a place for.
TEST_F(RealTemplates, ToolCallsReadBack) {
  int read = 0;
  for (const Json& file : all_) {
    const std::string name = file["name"].get<std::string>();
    const ChatTemplate t(file["template"].get<std::string>(), "<s>", "</s>", options_);
    Conversation c;
    const auto call = [](const char* id, const char* city) {
      return Json{
          {"id", id}, {"type", "function"}, {"function", {{"name", "get_weather"}, {"arguments", {{"city", city}}}}}};
    };
    c.tools = Json::parse(R"([{"type": "function", "function": {"name": "get_weather", "description": "Weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])");
    c.messages = {{{"role", "user"}, {"content", "Weather?"}},
                  {{"role", "assistant"},
                   {"content", ""},
                   {"tool_calls", {call("abcdefgh1", "Zurich"), call("abcdefgh2", "Bern")}}},
                  {{"role", "tool"}, {"name", "get_weather"}, {"tool_call_id", "abcdefgh1"}, {"content", "sunny"}},
                  {{"role", "tool"}, {"name", "get_weather"}, {"tool_call_id", "abcdefgh2"}, {"content", "rainy"}}};
    std::string text;
    ASSERT_NO_THROW(text = t.render(c)) << name;
    for (const char* part : {"get_weather", "Zurich", "Bern", "sunny", "rainy"})
      EXPECT_NE(text.find(part), text.npos) << name << "\n" << text;
    // The text between the question and the first result.
    const std::size_t begin = text.find("Weather?") + 8, end = text.find("sunny", begin);
    ASSERT_LT(end, text.size()) << name;
    const ToolOutput out = parse_tool_calls(t.tool_form(), text.substr(begin, end - begin), &c.tools);
    if (!out.calls.empty()) {
      ++read;
      EXPECT_EQ(out.calls[0].name, "get_weather") << name;
      EXPECT_EQ(Json::parse(out.calls[0].arguments, nullptr, false)["city"], "Zurich") << name << "\n" << text;
    }
    c.messages[1]["tool_calls"][0]["function"]["arguments"] = " ";  // as some clients send a call without any
    EXPECT_NO_THROW(t.render(c)) << name;
  }
  EXPECT_GE(read, 15);
}

// Tools reach the model, and warnings say when that is in words.
TEST_F(RealTemplates, ToolsReachTheModel) {
  for (const Json& file : all_) {
    const std::string name = file["name"].get<std::string>();
    const ChatTemplate t(file["template"].get<std::string>(), "<s>", "</s>", options_);
    Conversation c;
    c.messages = {{{"role", "user"}, {"content", "Weather?"}}};
    c.tools = Json::parse(R"([{"type": "function", "function": {"name": "get_weather", "description": "Weather.",
        "parameters": {"type": "object", "properties": {}}}}])");
    EXPECT_NE(t.render(c).find("get_weather"), std::string::npos) << name;
    EXPECT_EQ(t.warnings(c).empty(), t.traits().shows_tools()) << name;
  }
}

// In a conversation of 41 messages: contents belong to their messages, in every template that shows them in order.
TEST_F(RealTemplates, MessageAt) {
  for (const Json& file : all_) {
    const std::string name = file["name"].get<std::string>();
    const ChatTemplate t(file["template"].get<std::string>(), "<s>", "</s>", options_);
    Conversation c;
    for (int i = 0; i < 41; ++i) {
      c.messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", "number " + std::to_string(i) + "."}});
    }
    const std::string prompt = t.render(c);
    for (const int i : {0, 1, 2, 17, 30, 39, 40}) {
      const std::string content = "number " + std::to_string(i) + ".";
      const auto at = prompt.find(content);
      ASSERT_NE(at, prompt.npos) << name;
      EXPECT_EQ(t.message_at(c, at), i) << name;
      EXPECT_EQ(t.message_at(c, at + content.size() - 1), i) << name;
    }
  }
}

TEST_F(RealTemplates, LongConversationsAreFast) {
  for (const Json& file : all_) {
    const ChatTemplate t(file["template"].get<std::string>(), "<s>", "</s>", options_);
    Conversation c;
    for (int i = 0; i < 199; ++i) {
      c.messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(400, 'x')}});
    }
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double begin = thread_cpu_seconds();
      ASSERT_GT(t.render(c).size(), 199u * 400u);
      best = std::min(best, 1e3 * (thread_cpu_seconds() - begin));
    }
    std::printf("%-45s %7.2f ms\n", file["name"].get<std::string>().c_str(), best);
    // A few milliseconds; the bound leaves room for sanitizers and busy machines, and finds what is quadratic.
    EXPECT_LT(best, 2000) << file["name"];
  }
}

}  // namespace chat_templates_test
}  // namespace kvasir::text
