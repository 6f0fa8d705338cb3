// Kimi K2: <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}
// <|tool_call_end|><|tool_calls_section_end|>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_kimi {
namespace {

constexpr std::string_view kMarks[] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                       "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                       "<|tool_calls_section_end|>"};

int match(std::string_view t) { return has(t, kMarks[1]) ? 3 : 0; }

// "functions.f:0" -> "f"
std::string name_of(std::string_view head) {
  constexpr std::string_view kSpace = "functions.";
  head.remove_prefix(count_space(head));
  if (head.starts_with(kSpace)) head.remove_prefix(kSpace.size());
  head = head.substr(0, head.find_last_not_of(" \t\r\n") + 1);
  const std::size_t colon = head.rfind(':');
  if (colon != head.npos && colon + 1 < head.size() && head.find_first_not_of("0123456789", colon + 1) == head.npos)
    head = head.substr(0, colon);
  return std::string(head);
}

std::string name_before(std::string_view head) { return name_of(head.substr(0, head.find(kMarks[2]))); }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser(
      {.open = {kMarks[0], kMarks[1]}, .close = {kMarks[3], kMarks[4]}, .middle = kMarks[2], .name = name_before},
      tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  const std::string name = p.name.starts_with("functions.") ? p.name : "functions." + p.name;
  return g.sequence({g.text(std::string(kMarks[1]) + name + ":" + p.index + std::string(kMarks[2])), p.arguments(),
                     g.text(std::string(kMarks[3]))});
}

std::string write(const std::string& name, const Json& arguments) {
  return std::string(kMarks[1]) + "functions." + name + ":0" + std::string(kMarks[2]) + arguments.dump() +
         std::string(kMarks[3]);
}

constexpr std::string_view kOpens[] = {kMarks[0], kMarks[1]};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = kMarks[0],
                     .end = kMarks[4],
                     .numbered = true,
                     .write = write,
                     .marks = kMarks,
                     .opens = kOpens};

}  // namespace kvasir::text::tool_forms_kimi
