// Command R7B, Command A: <|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a":
// 1}}]<|END_ACTION|> Content may stand between <|START_RESPONSE|> and <|END_RESPONSE|>.
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_command {
namespace {

constexpr std::string_view kMarks[] = {"<|START_ACTION|>", "<|END_ACTION|>"};

int match(std::string_view t) { return has(t, kMarks[0]) ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0], "Action: ```json", "Action:```json"}, .close = {kMarks[1], "```"}},
                           tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("{\"tool_call_id\": " + Json(p.index).dump() + ", \"tool_name\": " + Json(p.name).dump() +
                            ", \"parameters\": "),
                     p.arguments(), g.text("}")});
}

std::string write(const std::string& name, const Json& arguments) {
  return "{\"tool_name\": " + Json(name).dump() + ", \"parameters\": " + arguments.dump() + "}";
}

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<|START_ACTION|>[",
                     .separator = ", ",
                     .end = "]<|END_ACTION|>",
                     .numbered = true,
                     .write = write,
                     .marks = kMarks};

}  // namespace kvasir::text::tool_forms_command
