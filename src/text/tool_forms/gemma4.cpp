// Gemma 4: <|tool_call>call:f{a:1,b:<|"|>text<|"|>,c:[true,{d:2}]}<tool_call|>, keys without quotes, strings between
// marks.
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_gemma4 {
namespace {

constexpr std::string_view kOpen = "<|tool_call>", kClose = "<tool_call|>", kQuote = "<|\"|>", kCall = "call:";

int match(std::string_view t) { return has(t, kOpen) ? 3 : 0; }

std::string name_of(std::string_view head) {
  head.remove_prefix(count_space(head));
  if (head.starts_with(kCall)) head.remove_prefix(kCall.size());
  head.remove_prefix(count_space(head));
  return std::string(head.substr(0, head.find_last_not_of(" \t\r\n") + 1));
}

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kOpen},
                            .close = {kClose},
                            .middle = "{",
                            .name = name_of,
                            .notation = {.quote = kQuote, .exact = false}},
                           tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("<|tool_call>call:" + p.name + "{"),
                     listed_arguments(p, {.behind = ":", .quote = kQuote, .separator = ","}), g.text("}<tool_call|>")});
}

std::string value_text(const Json& value) {
  if (value.is_string()) return std::string(kQuote) + value.get<std::string>() + std::string(kQuote);
  std::string text;
  if (value.is_object()) {
    for (const auto& [key, v] : value.items()) text += (text.empty() ? "" : ",") + key + ":" + value_text(v);
    return "{" + text + "}";
  }
  if (!value.is_array()) return value.dump();
  for (const Json& v : value) text += (text.empty() ? "" : ",") + value_text(v);
  return "[" + text + "]";
}

std::string write(const std::string& name, const Json& arguments) {
  return "<|tool_call>call:" + name + value_text(arguments) + "<tool_call|>";
}

constexpr std::string_view kMarks[] = {kOpen, kClose, kQuote};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_gemma4
