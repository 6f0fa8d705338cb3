// LFM2: a list of calls as Python has them:
//   <|tool_call_start|>[f(a=1, b="text"), g()]<|tool_call_end|>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_lfm2 {
namespace {

constexpr std::string_view kOpen = "<|tool_call_start|>", kClose = "<|tool_call_end|>";

int match(std::string_view t) { return has(t, "<|tool_list_start|>") || has(t, kOpen) ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser(
      {.open = {kOpen}, .close = {kClose}, .middle = "(", .notation = {.call = true, .exact = false}}, tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence(
      {g.text(p.name + "("), listed_arguments(p, {.behind = "=", .quote = "", .separator = ", "}), g.text(")")});
}

std::string value_text(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  if (!value.is_structured()) return value.dump();
  std::string text;
  if (value.is_array()) {
    for (const Json& v : value) text += (text.empty() ? "" : ", ") + value_text(v);
    return "[" + text + "]";
  }
  for (const auto& [key, v] : value.items())
    text += (text.empty() ? "" : ", ") + Json(key).dump() + ": " + value_text(v);
  return "{" + text + "}";
}

std::string write(const std::string& name, const Json& arguments) {
  std::string text;
  for (const auto& [key, value] : arguments.items()) text += (text.empty() ? "" : ", ") + key + "=" + value_text(value);
  return name + "(" + text + ")";
}

constexpr std::string_view kMarks[] = {kOpen, kClose};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<|tool_call_start|>[",
                     .separator = ", ",
                     .end = "]<|tool_call_end|>",
                     .write = write,
                     .marks = kMarks};

}  // namespace kvasir::text::tool_forms_lfm2
