// Granite 3: <|tool_call|>[{"name": "f", "arguments": {"a": 1}}], in some versions <tool_call> in front of the list.
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_granite {
namespace {

constexpr std::string_view kMarks[] = {"<|tool_call|>"};

int match(std::string_view t) { return has(t, kMarks[0]) ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0], "<tool_call>"}, .close = {"</tool_call>"}}, tools);
}

constexpr ObjectCall kCall{};
Grammar::Node call(const CallParts& p) { return kCall.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kCall.write(name, arguments); }

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<|tool_call|>[",
                     .separator = ", ",
                     .end = "]",
                     .write = write,
                     .marks = kMarks};

}  // namespace kvasir::text::tool_forms_granite
