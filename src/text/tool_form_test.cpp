#include "text/tool_form.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvasir::text {
namespace {

// Content, then one line per call.
std::string flat(const ToolOutput& out) {
  std::string text = out.content;
  for (const auto& call : out.calls) text += "\n-> " + call.name + " " + call.arguments;
  return text;
}

const Entry<ToolForm>* form(std::string_view name) {
  for (const auto& entry : tool_forms())
    if (entry.name == name) return &entry;
  return nullptr;
}

struct Case {
  const char* text;
  const char* expected;
};

// At once, byte by byte, and in pieces of 7: the same; and content never shrinks.
void check(std::string_view name, const std::vector<Case>& cases) {
  ASSERT_NE(form(name), nullptr);
  for (const auto& c : cases) {
    EXPECT_EQ(flat(parse_tool_calls(form(name), c.text)), c.expected) << c.text;
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}}) {
      const auto parser = make_tool_parser(form(name));
      ToolOutput out;
      const std::string_view text = c.text;
      for (std::size_t i = 0; i < text.size(); i += size) parser->push(text.substr(i, size), out);
      parser->finish(out);
      EXPECT_EQ(flat(out), c.expected) << c.text << " in pieces of " << size;
    }
  }
}

TEST(ToolForm, Hermes) {
  check("hermes",
        {
            {"Hello, world.\n", "Hello, world.\n"},
            {"", ""},
            {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1,\"b\":[1.0,\"x\"]}}\n</tool_call>",
             "\n-> f {\"a\": 1, \"b\": [1.0, \"x\"]}"},
            {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
             "\"g\", \"arguments\": {\"q\": \"ü\"}}\n</tool_call>\n",
             "Let me see.\n-> f {}\n-> g {\"q\": \"ü\"}"},
            {"a <tool_call>{\"name\":\"f\"}</tool_call> b", "a b\n-> f {}"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 2}\"}</tool_call>", "\n-> f {\"a\": 2}"},
            // The end tag within a string is no end, and a missing one at the end of the text is forgiven.
            {"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"}</tool_call>{\\\"\"}}</tool_call>",
             "\n-> f {\"s\": \"}</tool_call>{\\\"\"}"},
            {"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}", "\n-> f {}"},
            {"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_", "\n-> f {}"},
            // What is no call is content.
            {"<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>"},
            {"<tool_call>{\"nam\":\"f\"}</tool_call>", "<tool_call>{\"nam\":\"f\"}</tool_call>"},
            {"<tool_call>{\"name\":\"\"}</tool_call>", "<tool_call>{\"name\":\"\"}</tool_call>"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>",
             "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":{}} and </tool_call>",
             "<tool_call>{\"name\":\"f\",\"arguments\":{}} and </tool_call>"},
            {"<tool_call>{\"name\":\"f\",\"argum", "<tool_call>{\"name\":\"f\",\"argum"},
            {"<tool_call>{\"name\":'f'}</tool_call>", "<tool_call>{\"name\":'f'}</tool_call>"},
            {"a <tool_cal", "a <tool_cal"},
            {"a <tool_call>", "a <tool_call>"},
            {"a < b <t <tool_calls>", "a < b <t <tool_calls>"},
            {"<tool_call>x<tool_call>{\"name\":\"f\"}</tool_call>", "<tool_call>x\n-> f {}"},
        });
}

TEST(ToolForm, Llama3) {
  check("llama3",
        {
            {"Hello {\"name\": \"f\", \"parameters\": {}}", "Hello {\"name\": \"f\", \"parameters\": {}}"},
            {"{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "\n-> f {\"a\": 1}"},
            {" \n{\"name\": \"f\", \"parameters\": {}} ", "\n-> f {}"},
            {"<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "\n-> f {}"},
            {"{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}", "\n-> f {}"},
            {"{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}", "\n-> f {}"},
            {"{\"function\": \"f\", \"parameters\": {}}", "\n-> f {}"},
            {"{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}};", "\n-> f {}\n-> g {}"},
            {"Well. <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "Well.\n-> f {}"},
            {"{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
            {"{\"city\": \"X\", \"name\": \"f\", \"parameters\": {}}",
             "{\"city\": \"X\", \"name\": \"f\", \"parameters\": {}}"},
            {"{\"name\": \"f\", \"parameters\": {", "{\"name\": \"f\", \"parameters\": {"},
            {"{\"name\": \"f\", \"parameters\": 3}", "{\"name\": \"f\", \"parameters\": 3}"},
            {"<|python_tag|>print(1)", "<|python_tag|>print(1)"},
            {"<|python_tag|>", "<|python_tag|>"},
            {"<|pyth", "<|pyth"},
            {"{", "{"},
            {"", ""},
            {"{\"name\": \"f\", \"parameters\": {}} done", "done\n-> f {}"},
        });
}

// What may be shown while the text is being made.
TEST(ToolForm, HoldsBackWhatMayBecomeACall) {
  const auto shown = [](const char* name, std::string_view text) {
    ToolOutput out;
    make_tool_parser(form(name))->push(text, out);
    return out.content;
  };
  EXPECT_EQ(shown("hermes", "Hi there"), "Hi there");
  EXPECT_EQ(shown("hermes", "Hi there. \n"), "Hi there.");
  EXPECT_EQ(shown("hermes", "a < b and <tool"), "a < b and");
  EXPECT_EQ(shown("hermes", "a <toot"), "a <toot");
  EXPECT_EQ(shown("hermes", "a\n<tool_call>\n{\"name\": \"f\""), "a");
  EXPECT_EQ(shown("hermes", "a\n<tool_call>\nno"), "a\n<tool_call>\nno");
  EXPECT_EQ(shown("llama3", "Hi <|py"), "Hi");
  EXPECT_EQ(shown("llama3", "{\"na"), "");
  EXPECT_EQ(shown("llama3", "{\"name\": \"f\", "), "");
  EXPECT_EQ(shown("llama3", "{\"answer\": 4"), "{\"answer\": 4");
  EXPECT_EQ(shown("llama3", "[1"), "[1");
}

// Text that looks like calls again and again takes linear time, and deep nesting is content.
TEST(ToolForm, HostileText) {
  std::string tags, open = "<tool_call>{\"name\":\"f\",\"arguments\":";
  for (int i = 0; i < 100000; ++i) tags += "<tool_call>{";
  EXPECT_EQ(parse_tool_calls(form("hermes"), tags).content, tags);
  for (int i = 0; i < 100000; ++i) open += "{\"a\":";
  EXPECT_EQ(parse_tool_calls(form("hermes"), open).content, open);
  open += "1";
  for (int i = 0; i < 100001; ++i) open += "}";
  open += "</tool_call>";
  EXPECT_EQ(parse_tool_calls(form("hermes"), open).content, open);
  std::string python;
  for (int i = 0; i < 100000; ++i) python += "<|python_tag|>{\"name\"";
  EXPECT_EQ(parse_tool_calls(form("llama3"), python).content, python);
}

TEST(ToolForm, IsChosenByTheTemplate) {
  const auto name = [](std::string_view source) {
    const auto* found = find_tool_form(source);
    return found ? std::string(found->name) : std::string("none");
  };
  EXPECT_EQ(name("<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"),
            "hermes");
  EXPECT_EQ(name("'<tool_call>\\n<function=' + tool_call.name, tool_call.arguments"), "none");
  EXPECT_EQ(name("<tool_call>{name}<arg_key> tc.arguments"), "none");
  EXPECT_EQ(name("{{ '{\"name\": \"' + tool_call.name }} {{ '\"parameters\": ' }}"), "llama3");
  EXPECT_EQ(name("{{ '<|python_tag|>' }}"), "llama3");
  EXPECT_EQ(name("{% for m in messages %}{{ m.content }}{% endfor %}"), "none");
  EXPECT_EQ(flat(parse_tool_calls(nullptr, "<tool_call> a \n")), "<tool_call> a \n");
}

}  // namespace
}  // namespace kvasir::text
