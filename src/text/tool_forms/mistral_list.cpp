// Mistral before 2025: [TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}]
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_mistral_list {
namespace {

constexpr std::string_view kMarks[] = {"[TOOL_CALLS]"};

int match(std::string_view t) { return has(t, "[TOOL_CALLS]") && !has(t, "[ARGS]") ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0]}, .middle = "[ARGS]", .also = {"[CALL_ID]"}}, tools);
}

constexpr ObjectCall kCall{};
Grammar::Node call(const CallParts& p) { return kCall.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kCall.write(name, arguments); }

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "[TOOL_CALLS][",
                     .separator = ", ",
                     .end = "]",
                     .write = write,
                     .marks = kMarks};

}  // namespace kvasir::text::tool_forms_mistral_list
