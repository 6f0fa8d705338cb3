#include "text/tool_grammar.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "text/grammars_fixture.hpp"
#include "text/parse_tool_calls_fixture.hpp"

namespace kvasir::text {
namespace tool_grammar_test {

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}},
                                                                  "required": ["a"]}}},
  {"type": "function", "function": {"name": "say \"g\""}},
  {"type": "function", "function": {"name": "h", "parameters": {"properties": {"z": {"type": "string", "pattern": "(x)\\1"}}}}}])");

const Entry<ToolForm>* form(std::string_view name) {
  for (const auto& entry : tool_forms())
    if (entry.name == name) return &entry;
  return nullptr;
}

std::string refusal(const Entry<ToolForm>* f, const Json& tools, const std::string& name) {
  try {
    grammar_of_calls(f, tools, {.name = name});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ToolGrammar, Hermes) {
  Matcher any(grammar_of_calls(form("hermes"), kTools, {}));
  const std::string f = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 7}}\n</tool_call>";
  const std::string g = "<tool_call>\n{\"name\": \"say \\\"g\\\"\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(conforms(any, f));
  EXPECT_TRUE(conforms(any, g));
  EXPECT_TRUE(conforms(any, f + "\n" + g + "\n" + f));
  EXPECT_FALSE(conforms(any, ""));
  EXPECT_FALSE(conforms(any, "Let me see. " + f));
  EXPECT_FALSE(conforms(any, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(conforms(any, "<tool_call>\n{\"name\": \"x\", \"arguments\": {}}\n</tool_call>"));
  Matcher one(grammar_of_calls(form("hermes"), kTools, {.name = "f", .many = false}));
  EXPECT_TRUE(conforms(one, f));
  EXPECT_FALSE(conforms(one, g));
  EXPECT_FALSE(conforms(one, f + "\n" + f));
}

TEST(ToolGrammar, Llama3) {
  Matcher any(grammar_of_calls(form("llama3"), kTools, {}));
  EXPECT_TRUE(conforms(any, R"({"name": "f", "parameters": {"a": 1}})"));
  EXPECT_TRUE(conforms(any, R"({"name": "f", "parameters": {"a": 1}}; {"name": "h", "parameters": {"z": "any"}})"));
  EXPECT_FALSE(conforms(any, R"({"name": "f", "arguments": {"a": 1}})"));
}

// Where calls are not wanted no call begins, and everything else may be said; where some are, those and nothing else.
TEST(ToolGrammar, OtherCallsDoNotBegin) {
  const std::string f = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 7}}\n</tool_call>";
  const std::string h = "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>";
  Matcher none(grammar_of_text(form("hermes"), Json::array(), true));
  for (const char* text : {"", "Yes.", "<tool_cal", "a < b, <tool>, <<tool_call", "<think>\nHm.\n</think>\n\nNo."})
    EXPECT_TRUE(conforms(none, text)) << text;
  EXPECT_FALSE(conforms(none, f));
  EXPECT_FALSE(conforms(none, "Well. <<tool_call>"));
  const Json allowed = Json::array({kTools[0]});
  Matcher some(grammar_of_text(form("hermes"), allowed, true));
  EXPECT_TRUE(conforms(some, "No call."));
  EXPECT_TRUE(conforms(some, "Two: " + f + "\n" + f + " done"));
  EXPECT_FALSE(conforms(some, h));
  EXPECT_FALSE(conforms(some, f + "\n" + h));
  Matcher one(grammar_of_text(form("hermes"), allowed, false));
  EXPECT_TRUE(conforms(one, "One: " + f + " done"));
  EXPECT_FALSE(conforms(one, f + "\n" + f));
}

// What a form writes is a call; without tools its grammar refuses that text. `functionary_recipient` has no mark.
TEST(ToolGrammar, EveryFormsCallsAreForbidden) {
  for (const auto& entry : tool_forms()) {
    const auto none = grammar_of_text(&entry, Json::array(), true);
    if (!none) {
      EXPECT_EQ(entry.name, "functionary_recipient");
      continue;
    }
    const ToolCall call{"f", R"({"a": 1})"};
    const std::string text = write_tool_calls(entry, std::span(&call, 1));
    Matcher forbids(none);
    EXPECT_FALSE(conforms(forbids, text)) << entry.name << ": " << text;
    EXPECT_TRUE(conforms(forbids, "I do not call f.")) << entry.name;
  }
}

// Texts of the grammar, byte by byte; nothing for those that become long.
std::optional<std::string> random_text(Matcher& m, std::uint64_t& seed) {
  Matcher::State state = m.start();
  std::string text;
  while (!m.ends(state) && text.size() < 2000) {
    if (m.accepts(state) && text.size() > 200) break;
    const std::optional<std::uint8_t> byte = random_byte(m, state, seed);
    if (!byte) return {};
    state = m.next(state, *byte);
    text += static_cast<char>(*byte);
  }
  return m.accepts(state) ? std::optional(text) : std::nullopt;
}

const Json kAnyTools = Json::parse(R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string",
      "maxLength": 6}, "n": {"type": "integer"}, "e": {"enum": ["x", "y z"]}, "l": {"type": "array", "items": {"type": "boolean"},
      "maxItems": 3}}, "required": ["s", "e"]}}},
  {"type": "function", "function": {"name": "empty", "parameters": {}}},
  {"type": "function", "function": {"name": "none"}},
  {"type": "function", "function": {"name": "both", "parameters": {"allOf": [
      {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
      {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]}}},
  {"type": "function", "function": {"name": "maybe", "parameters": {"type": ["object", "null"], "properties": {"k": {"const": 1}},
      "required": ["k"]}}}])");

// What a grammar forces, the parser of the form finds: calls, with arguments that are objects and conform.
TEST(ToolGrammar, WhatIsForcedIsParsed) {
  std::uint64_t seed = 11;
  for (const auto& entry : tool_forms()) {
    ASSERT_NE(entry.value->call, nullptr) << entry.name;
    int calls = 0;
    for (const char* name : {"f", "empty", "none", "both", "maybe"}) {
      Matcher m(grammar_of_calls(&entry, kAnyTools, {.name = name, .many = false}));
      for (int i = 0; i < 12; ++i) {
        const auto text = random_text(m, seed);
        if (!text) continue;
        const ToolOutput out = parse_tool_calls(&entry, *text, &kAnyTools);
        ASSERT_EQ(out.calls.size(), 1u) << entry.name << ": " << *text;
        EXPECT_EQ(out.calls[0].name, name) << entry.name << ": " << *text;
        EXPECT_EQ(out.content, "") << entry.name << ": " << *text;
        const Json arguments = Json::parse(out.calls[0].arguments, nullptr, false);
        ASSERT_TRUE(arguments.is_object()) << entry.name << ": " << *text << "\n" << out.calls[0].arguments;
        ++calls;
        if (std::string_view(name) == "f") {
          EXPECT_TRUE(arguments.contains("s") && arguments["s"].is_string()) << *text;
          EXPECT_TRUE(arguments.contains("e") && (arguments["e"] == "x" || arguments["e"] == "y z")) << *text;
          EXPECT_TRUE(!arguments.contains("n") || arguments["n"].is_number_integer()) << *text;
        }
        if (std::string_view(name) == "both") {
          EXPECT_TRUE(arguments.value("a", Json()).is_boolean() && arguments.value("b", Json()).is_boolean()) << *text;
        }
        if (std::string_view(name) == "maybe") {
          EXPECT_EQ(arguments.value("k", Json()), 1) << *text;
        }
      }
    }
    EXPECT_GE(calls, 30) << entry.name;
    Matcher many(grammar_of_calls(&entry, kAnyTools, {}));
    for (int i = 0; i < 10; ++i) {
      const auto text = random_text(many, seed);
      EXPECT_TRUE(!text || !parse_tool_calls(&entry, *text, &kAnyTools).calls.empty()) << entry.name << ": " << *text;
    }
  }
}

// Beside a format the answer is a call or of that format.
TEST(ToolGrammar, OrSomethingElse) {
  Matcher m(grammar_of_calls(form("hermes"), kTools, {.otherwise = [](Grammar& g) { return add_objects(g); }}));
  EXPECT_TRUE(conforms(m, R"({"any": 1})"));
  EXPECT_TRUE(conforms(m, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 7}}\n</tool_call>"));
  EXPECT_FALSE(conforms(m, "text"));
}

TEST(ToolGrammar, WarnsOfWhatDoesNotHold) {
  Warnings warnings;
  grammar_of_calls(form("hermes"), kTools, {}, &warnings);
  EXPECT_EQ(warnings, (Warnings{"tools[2].function.parameters: properties.z.pattern is not held: back references are "
                                "not supported"}));
}

TEST(ToolGrammar, WhatCannotBeForcedIsRefused) {
  EXPECT_EQ(refusal(nullptr, kTools, ""), "tool_choice: calls cannot be forced with this chat template");
  EXPECT_EQ(refusal(form("hermes"), kTools, "x"), "tool_choice.function.name: no tool is called 'x'");
  Json strict = kTools;
  strict[2]["function"]["strict"] = true;
  EXPECT_EQ(refusal(form("hermes"), strict, ""),
            "tools[2].function.parameters: properties.z.pattern: back references are not supported");
  EXPECT_EQ(refusal(form("hermes"), strict, "f"), "");
  strict[0]["function"]["parameters"] = 3;
  EXPECT_EQ(refusal(form("hermes"), strict, "f"),
            "tools[0].function.parameters: schema: expected an object or a boolean");
}

}  // namespace tool_grammar_test
}  // namespace kvasir::text
