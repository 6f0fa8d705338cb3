#include "text/tool_grammar.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "text/grammars_fixture.hpp"

namespace kvasir::text {
namespace {

using Json = nlohmann::ordered_json;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}},
                                                                  "required": ["a"]}}},
  {"type": "function", "function": {"name": "say \"g\""}},
  {"type": "function", "function": {"name": "h", "parameters": {"properties": {"z": {"type": "string", "pattern": "x"}}}}}])");

const Entry<ToolForm>* form(std::string_view name) {
  for (const auto& entry : tool_forms())
    if (entry.name == name) return &entry;
  return nullptr;
}

std::string refusal(const Entry<ToolForm>* f, const Json& tools, const std::string& name) {
  try {
    grammar_of_calls(f, tools, name, true);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ToolGrammar, Hermes) {
  Matcher any(grammar_of_calls(form("hermes"), kTools, "", true));
  const std::string f = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 7}}\n</tool_call>";
  const std::string g = "<tool_call>\n{\"name\": \"say \\\"g\\\"\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(conforms(any, f));
  EXPECT_TRUE(conforms(any, g));
  EXPECT_TRUE(conforms(any, f + "\n" + g + "\n" + f));
  EXPECT_FALSE(conforms(any, ""));
  EXPECT_FALSE(conforms(any, "Let me see. " + f));
  EXPECT_FALSE(conforms(any, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(conforms(any, "<tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call>"));
  Matcher one(grammar_of_calls(form("hermes"), kTools, "f", false));
  EXPECT_TRUE(conforms(one, f));
  EXPECT_FALSE(conforms(one, g));
  EXPECT_FALSE(conforms(one, f + "\n" + f));
}

TEST(ToolGrammar, Llama3) {
  Matcher any(grammar_of_calls(form("llama3"), kTools, "", true));
  EXPECT_TRUE(conforms(any, R"({"name": "f", "parameters": {"a": 1}})"));
  EXPECT_TRUE(conforms(any, R"({"name": "f", "parameters": {"a": 1}}; {"name": "h", "parameters": {"z": "any"}})"));
  EXPECT_FALSE(conforms(any, R"({"name": "f", "arguments": {"a": 1}})"));
}

// What a grammar forces, the parser of the form finds.
TEST(ToolGrammar, WhatIsForcedIsParsed) {
  for (const auto& entry : tool_forms()) {
    const ToolWriting& w = entry.value->writing;
    if (w.arguments.empty()) continue;
    const std::string call = std::string(w.open) + "{\"name\": \"f\", \"" + std::string(w.arguments) +
                             "\": {\"a\": 1}}" + std::string(w.close);
    const std::string both = call + std::string(w.separator) + call;
    Matcher m(grammar_of_calls(&entry, kTools, "", true));
    EXPECT_TRUE(conforms(m, both)) << both;
    const ToolOutput out = parse_tool_calls(&entry, both);
    EXPECT_EQ(out.content, "");
    ASSERT_EQ(out.calls.size(), 2u) << both;
    for (const ToolCall& c : out.calls) {
      EXPECT_EQ(c.name, "f");
      EXPECT_EQ(Json::parse(c.arguments), Json::parse(R"({"a": 1})"));
    }
  }
}

TEST(ToolGrammar, WhatCannotBeForcedIsRefused) {
  EXPECT_EQ(refusal(nullptr, kTools, ""), "tool_choice: calls cannot be forced with this chat template");
  EXPECT_EQ(refusal(form("hermes"), kTools, "x"), "tool_choice.function.name: no tool is called 'x'");
  Json strict = kTools;
  strict[2]["function"]["strict"] = true;
  EXPECT_EQ(refusal(form("hermes"), strict, ""),
            "tools[2].function.parameters: properties.z.pattern: is not supported");
  EXPECT_EQ(refusal(form("hermes"), strict, "f"), "");
  strict[0]["function"]["parameters"] = 3;
  EXPECT_EQ(refusal(form("hermes"), strict, "f"),
            "tools[0].function.parameters: schema: expected an object or a boolean");
}

}  // namespace
}  // namespace kvasir::text
