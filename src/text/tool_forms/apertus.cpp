// Apertus: <|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_apertus {
namespace {

constexpr std::string_view kMarks[] = {"<|tools_prefix|>", "<|tools_suffix|>"};

int match(std::string_view t) { return has(t, kMarks[0]) ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0]}, .close = {kMarks[1]}, .key_is_name = true}, tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("{" + Json(p.name).dump() + ": "), p.arguments(), g.text("}")});
}

std::string write(const std::string& name, const Json& arguments) {
  return "{" + Json(name).dump() + ": " + arguments.dump() + "}";
}

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<|tools_prefix|>[",
                     .separator = ", ",
                     .end = "]<|tools_suffix|>",
                     .write = write,
                     .marks = kMarks};

}  // namespace kvasir::text::tool_forms_apertus
