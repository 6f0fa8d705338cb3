// Mistral since 2025:
//   [TOOL_CALLS]f[ARGS]{"a": 1}
// once for every call, in some with [CALL_ID]abcdefghi in front of [ARGS].
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_mistral {
namespace {

constexpr std::string_view kMarks[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};

int match(std::string_view t) { return has(t, "[TOOL_CALLS]") && has(t, "[ARGS]") ? 3 : 0; }

std::string name_of(std::string_view head) {
  head = head.substr(0, head.find("[CALL_ID]"));
  head.remove_prefix(count_space(head));
  return std::string(head.substr(0, head.find_last_not_of(" \n\t\r") + 1));
}

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0]}, .middle = kMarks[1], .name = name_of, .also = {kMarks[2]}}, tools);
}

Grammar::Node call(const CallParts& p) {
  return p.grammar.sequence({p.grammar.text("[TOOL_CALLS]" + p.name + "[ARGS]"), p.arguments()});
}
std::string write(const std::string& name, const Json& arguments) {
  return "[TOOL_CALLS]" + name + "[ARGS]" + arguments.dump();
}

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_mistral
