// Texts in a form of tool calls, and what they are read as.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/parse_tool_calls_fixture.hpp"

namespace kvasir::text {

// Content, then one line per call.
inline std::string flat(const ToolOutput& out) {
  std::string text = out.content;
  for (const auto& call : out.calls) text += "\n-> " + call.name + " " + call.arguments;
  return text;
}

inline const Entry<ToolForm>* form(std::string_view name) {
  for (const auto& entry : tool_forms())
    if (entry.name == name) return &entry;
  return nullptr;
}

struct Case {
  const char* text;
  const char* expected;
};

// At once, byte by byte, and in pieces of 7: the same; and content never shrinks.
inline void check(std::string_view name, const std::vector<Case>& cases, const Json* tools = nullptr) {
  ASSERT_NE(form(name), nullptr);
  for (const auto& c : cases) {
    EXPECT_EQ(flat(parse_tool_calls(form(name), c.text, tools)), c.expected) << c.text;
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}}) {
      const auto parser = make_tool_parser(form(name), tools);
      ToolOutput out;
      const std::string_view text = c.text;
      for (std::size_t i = 0; i < text.size(); i += size) parser->push(text.substr(i, size), out);
      parser->finish(out, false);
      EXPECT_EQ(flat(out), c.expected) << c.text << " in pieces of " << size;
    }
  }
}

inline const Json kTools =
    Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])");

}  // namespace kvasir::text
