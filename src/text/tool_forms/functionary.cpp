// Functionary 3.1: <function=f>{"a": 1}</function>, any number of times.
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_functionary {
namespace {

constexpr std::string_view kOpen = "<function=", kClose = "</function>";

int match(std::string_view t) { return has(t, kOpen) && has(t, kClose) && !has(t, "<parameter=") ? 2 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kOpen}, .close = {kClose}, .middle = ">"}, tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text(std::string(kOpen) + p.name + ">"), p.arguments(), g.text(std::string(kClose))});
}

std::string write(const std::string& name, const Json& arguments) {
  return std::string(kOpen) + name + ">" + arguments.dump() + std::string(kClose);
}

constexpr std::string_view kOpens[] = {kOpen};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .write = write, .opens = kOpens};

}  // namespace kvasir::text::tool_forms_functionary
