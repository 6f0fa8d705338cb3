// Earlier answers go back to the template: ids, arguments, reasoning; tools that leave something out; who is to blame.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/test_data_fixture.hpp"
#include "text/arguments.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {
namespace {

const std::string kPublished = fixture::test_data("templates/");

// "" where the folder is not there.
std::string published(const std::string& name) {
  if (!std::filesystem::exists(kPublished)) return {};
  return Json::parse(read_text_file(kPublished + name + ".json"))["template"].get<std::string>();
}

Json call_json(const Json& id, const Json& arguments, const char* name = "f") {
  Json call{{"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  if (!id.is_null()) call["id"] = id;
  return call;
}

Conversation loop_of(const Json& calls, const Json& results, Json more = Json::object()) {
  Conversation c;
  Json answer{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}};
  answer.update(more);
  c.messages = {{{"role", "user"}, {"content", "hi"}}, std::move(answer)};
  for (const Json& id : results) {
    Json result{{"role", "tool"}, {"content", "ok"}};
    if (!id.is_null()) result["tool_call_id"] = id;
    c.messages.push_back(std::move(result));
  }
  c.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "description": "d",
      "parameters": {"type": "object", "properties": {"day": {"type": "integer", "description": "x"}}}}}])");
  return c;
}

// Without the tools, which would stand in front of what templates make that do not show them.
Conversation calls_of(const Json& calls, const Json& results, Json more = Json::object()) {
  Conversation c = loop_of(calls, results, std::move(more));
  c.tools = nullptr;
  return c;
}

constexpr const char* kNine =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{% if c.id|length != 9 %}"
    "{{ raise_exception('nine') }}{% endif %}<{{ c.id }}>{{ c.function.arguments|tojson }}{% endfor %}"
    "{% if m.role == 'tool' %}{% if m.tool_call_id|length != 9 %}{{ raise_exception('nine') }}{% endif %}"
    "={{ m.tool_call_id }};{% endif %}{% endfor %}";

TEST(ChatHistory, IdsOfNineLetters) {
  const ChatTemplate t(kNine, "", "");
  EXPECT_EQ(t.traits().ids, CallIdForm::kShort);
  const Json two = Json::array({call_json("call_1", {{"day", 1}}), call_json("toolu_01ABCDEFGHIJ", {{"day", 2}})});
  const std::string text = t.render(calls_of(two, {"toolu_01ABCDEFGHIJ", "call_1"}));
  const std::string first = text.substr(text.find('<') + 1, 9), second = text.substr(text.rfind('<') + 1, 9);
  EXPECT_NE(first, second);
  EXPECT_TRUE(text.ends_with("=" + second + ";ok=" + first + ";")) << text;
  EXPECT_EQ(text, t.render(calls_of(two, {"toolu_01ABCDEFGHIJ", "call_1"}))) << "the same in the next turn";
  // Its own form stays, none at all is made up, and results without one belong to the calls in order.
  EXPECT_EQ(t.render(calls_of(Json::array({call_json("abcdefgh1", Json::object())}), {"abcdefgh1"})),
            "hi<abcdefgh1>{}ok=abcdefgh1;");
  const std::string none =
      t.render(calls_of(Json::array({call_json(nullptr, "{}"), call_json(nullptr, "{}")}), {nullptr, nullptr}));
  EXPECT_TRUE(
      none.ends_with("ok=" + none.substr(none.find('<') + 1, 9) + ";ok=" + none.substr(none.rfind('<') + 1, 9) + ";"))
      << none;
  EXPECT_NO_THROW(t.render(calls_of(Json::array({call_json("a", "{}")}), {"another"})));
}

TEST(ChatHistory, ArgumentsThatAreNoJson) {
  const struct {
    const char *text, *mended;
  } cases[] = {
      {R"({"day": 3)", R"({"day":3})"},
      {R"({"day": 3, "note": "a b)", R"({"day":3,"note":"a b"})"},
      {R"({"day": 3, "no)", R"({"day":3})"},
      {R"({"day": 3,)", R"({"day":3})"},
      {R"({"tags": ["a", {"b": 1)", R"({"tags":["a",{"b":1}]})"},
      {"{\"day\": 3\n</tool_call>", R"({"day":3})"},
      {R"({"day": 3}})", R"({"day":3})"},
      {"{", "{}"},
      {"nothing", "{}"},
      {R"({"a": "\)", R"({"a":"\\"})"},
      {"[1, 2]", "{}"},
      {"", "{}"},
  };
  for (const auto& c : cases) EXPECT_EQ(mended_arguments(c.text).dump(), c.mended) << c.text;
  // As they are where the template writes JSON, and what can be read of them where it goes through them.
  const ChatTemplate json(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}"
      "{% endfor %}",
      "", "");
  const Conversation broken = calls_of(Json::array({call_json("a", R"({"day": 3, "no)")}), {"a"});
  EXPECT_EQ(json.render(broken), R"({"name": "f", "arguments": {"day": 3, "no})");
  const ChatTemplate items(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in "
      "c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}",
      "", "");
  EXPECT_EQ(items.render(broken), "day=3;");
}

TEST(ChatHistory, ReasoningUnderTheNameThatIsRead) {
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const ChatTemplate t(std::string("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}({{ m.") + name +
                             " }}){{ m.tool_calls[0].function.name }}{% endif %}{% endfor %}",
                         "", "");
    EXPECT_EQ(t.render(calls_of(Json::array({call_json("a", "{}")}), {"a"}, {{"reasoning_content", "Hm."}})),
              "hi(Hm.)fok")
        << name;
  }
}

TEST(ChatHistory, ToolsThatLeaveThingsOut) {
  const ChatTemplate t(
      "{% for t in tools or [] %}{{ t.function.name + ': ' + t.function.description }}{% for k, v in "
      "t.function.parameters.properties.items() %} {{ k + ' ' + v.type + v.description }}{% endfor %};"
      "{% endfor %}{{ messages[0].content }}",
      "", "");
  const auto shown = [&](const char* tools) {
    Conversation c;
    c.messages = {{{"role", "user"}, {"content", "hi"}}};
    c.tools = Json::parse(tools);
    return t.render(c);
  };
  EXPECT_EQ(shown(R"([{"type": "function", "function": {"name": "f"}}])"), "f: ;hi");
  EXPECT_EQ(shown(R"([{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}])"),
            "f: ;hi");
  EXPECT_EQ(shown(R"([{"function": {"name": "f", "parameters": {}}}])"), "f: ;hi");
  EXPECT_EQ(shown(R"([{"function": {"name": "f", "parameters": {"properties": {"a": {}}}}}])"), "f:  a string;hi");
}

TEST(ChatHistory, WhoIsToBlame) {
  const ChatTemplate t(
      "{% for t in tools or [] %}{% if t.function.name == 'bad' %}{{ raise_exception('no') }}{% endif %}"
      "{% endfor %}{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('never') }}"
      "{% endif %}{{ m.content }}{% endfor %}",
      "", "");
  const auto where = [&](const Conversation& c) {
    try {
      t.render(c);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  Conversation c;
  for (const char* text : {"a", "b", "bad", "c"}) c.messages.push_back({{"role", "user"}, {"content", text}});
  EXPECT_EQ(where(c), "messages[2]: the chat template, line 1 refuses this message: never");
  c.messages.erase(2);
  EXPECT_EQ(where(c), "");
  c.tools = Json::parse(R"([{"function": {"name": "good"}}, {"function": {"name": "bad"}}])");
  EXPECT_EQ(where(c), "tools[1]: the chat template, line 1 refuses the tool 'bad': no");
}

TEST(ChatHistory, OfPublishedTemplates) {
  if (!std::filesystem::exists(kPublished)) GTEST_SKIP() << kPublished << " is not there";
  for (const auto& file : std::filesystem::directory_iterator(kPublished)) {
    const std::string name = file.path().stem().string();
    const ChatTemplate t(published(name), "<s>", "</s>");
    for (const char* id : {"call_910a2dec89025cc1", "functions.f:0", "abcdefgh1"})
      for (const Json& arguments : {Json(R"({"day": 3})"), Json(R"({"day": 3)"), Json("x"), Json(R"(["a"])")})
        for (const char* text : {"", "I look."}) {
          Conversation c = loop_of(Json::array({call_json(id, arguments), call_json(std::string(id) + "x", arguments)}),
                                   {id, std::string(id) + "x"}, {{"reasoning_content", "Hm."}, {"content", text}});
          EXPECT_NO_THROW(t.render(c)) << name << " " << arguments;
          c.messages.push_back({{"role", "user"}, {"content", "go on"}});
          EXPECT_NO_THROW(t.render(c)) << name;
        }
    for (const char* function : {R"({"name": "f"})", R"({"name": "f", "parameters": {}})",
                                 R"({"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}})"}) {
      Conversation c;
      c.messages = {{{"role", "user"}, {"content", "hi"}}};
      c.tools = Json::array({{{"type", "function"}, {"function", Json::parse(function)}}});
      EXPECT_NO_THROW(t.render(c)) << name << function;
    }
  }
  const ChatTemplate kimi(published("Kimi-K2-Instruct"), "", "");
  const std::string text = kimi.render(loop_of(
      Json::array({call_json("call_a", {{"day", 3}}), call_json("call_b", {{"day", 4}})}), {"call_a", "call_b"}));
  for (const char* part : {"functions.f:0<|tool_call_argument_begin|>{\"day\": 3}",
                           "functions.f:1<|tool_call_argument_begin|>{\"day\": 4}", "## Return of functions.f:1\nok"})
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
  const ChatTemplate gpt(published("openai-gpt-oss-120b"), "", "");
  EXPECT_NE(
      gpt.render(loop_of(Json::array({call_json("a", {{"day", 3}})}), {"a"}, {{"reasoning_content", "I need f."}}))
          .find("<|channel|>analysis<|message|>I need f.<|end|>"),
      std::string::npos);
}

}  // namespace
}  // namespace kvasir::text
