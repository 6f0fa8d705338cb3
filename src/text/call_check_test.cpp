#include "text/call_check.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/call_in_thought.hpp"

namespace kvasir::text {
namespace {

const Json kCheckTools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}},
    "o": {"type": "object", "properties": {"k": {"type": "boolean"}}, "required": ["k"]}}, "required": ["n"]}}}])");

std::string faults(const std::string& name, const std::string& arguments) {
  std::string all;
  for (const std::string& fault : call_faults({name, arguments}, kCheckTools)) all += (all.empty() ? "" : "; ") + fault;
  return all;
}

TEST(CallCheck, SaysWhatIsBroken) {
  EXPECT_EQ(faults("f", R"({"n": 3, "s": "a", "l": ["x"], "o": {"k": true}})"), "");
  EXPECT_EQ(faults("f", R"({"n": 3.0, "more": 1})"), "");
  EXPECT_EQ(faults("f", R"({"n": "three"})"), "the call of 'f' is broken: 'n': expected integer");
  EXPECT_EQ(faults("f", "{}"), "the call of 'f' is broken: 'n' is missing");
  EXPECT_EQ(faults("f", R"({"n": 1, "l": [1], "o": {}})"),
            "the call of 'f' is broken: 'l[0]': expected string; the call of 'f' is broken: 'o.k' is missing");
  EXPECT_EQ(faults("f", R"({"n": 3)"), "the call of 'f' is broken: its arguments are no JSON object");
  EXPECT_EQ(faults("g", "{}"), "the answer calls 'g', which is none of the tools");
}

TEST(CallCheck, FindsCallsThatNobodyReads) {
  for (const char* text : {"<call>f</call>", "{\"name\": \"f\"", "<x name=\"f\">", "<function=f>", "[f(n=1)]", "<f>",
                           "call:f{n:1}", "Action: f\nAction Input: {}", "<|x|>f"})
    EXPECT_EQ(unread_call(text, kCheckTools), "f") << text;
  for (const char* text : {"I use `f` for this.", "f(x) = 3", "{\"f\": 1}", "a > f", "function foo", "", "name=fg"})
    EXPECT_EQ(unread_call(text, kCheckTools), "") << text;
}

const Entry<ToolForm>* check_form(std::string_view name) {
  for (const auto& entry : tool_forms())
    if (entry.name == name) return &entry;
  return nullptr;
}

// At once and byte by byte: what is given out, and the calls at the end.
TEST(CallCheck, CallsAtTheEndOfReasoning) {
  struct Case {
    std::string text, told, calls;
  };
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 3}}\n</tool_call>";
  const Case cases[] = {
      {"Hm.\n" + call, "Hm.", "f {\"n\": 3}"},
      {"Hm.\n" + call + " or not", "Hm.\n" + call + " or not", ""},
      {"Hm. <tool_call>x", "Hm. <tool_call>x", ""},
      {"Hm. <tool_call>{\"name\": \"g\", \"arguments\": {}}", "Hm. <tool_call>{\"name\": \"g\", \"arguments\": {}}",
       ""},
      {"Hm. <tool_call>{\"name\": \"f\", \"arguments\": {", "Hm. <tool_call>{\"name\": \"f\", \"arguments\": {", ""},
      {"Hm. <tool_", "Hm. <tool_", ""},
      {"Hm.\n", "Hm.\n", ""},
  };
  for (const Case& c : cases)
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}}) {
      CallInThought thought(check_form("hermes"), &kCheckTools);
      std::string told, calls;
      for (std::size_t i = 0; i < c.text.size(); i += size) told += thought.push(c.text.substr(i, size), false);
      for (const ToolCall& one : thought.calls()) calls += one.name + " " + one.arguments;
      told += thought.take();
      EXPECT_EQ(told, c.told) << c.text;
      EXPECT_EQ(calls, c.calls) << c.text;
    }
  CallInThought thought(check_form("hermes"), &kCheckTools);
  EXPECT_EQ(thought.push("Hm. " + call, false), "Hm.");
  EXPECT_EQ(thought.push("", true), " " + call);
  EXPECT_TRUE(thought.calls().empty());
}

}  // namespace
}  // namespace kvasir::text
