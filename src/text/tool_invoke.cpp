// Calls as <invoke name="f"> with <parameter name="a">, in the tags of several families.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text {

std::unique_ptr<ToolParser> InvokeTags::parser(const Json* tools, std::vector<std::string_view> sections) const {
  sections.insert(sections.begin(), section);
  std::vector<std::string_view> ends = {section_end};
  return make_tag_parser({.section = std::move(sections),
                          .section_end = std::move(ends),
                          .call = call,
                          .call_end = call_end,
                          .key = key,
                          .value_end = value_end,
                          .own = own},
                         tools);
}

Grammar::Node InvokeTags::grammar(const CallParts& parts) const {
  Grammar& g = parts.grammar;
  const std::string before = fmt::format("{} name=\"", key), end = fmt::format("{}\n", value_end);
  const std::string text = typed ? "\" string=\"true\">" : "\">", json = typed ? "\" string=\"false\">" : "\">";
  return g.sequence({g.text(fmt::format("{} name=\"{}\">\n", call, parts.name)),
                     plain_arguments(parts, {.before = before, .behind = text, .end = end, .behind_json = json}),
                     g.text(std::string(call_end))});
}

std::string InvokeTags::write(const std::string& name, const Json& arguments) const {
  std::string out = fmt::format("{} name=\"{}\">\n", call, name);
  for (const auto& [k, value] : arguments.items()) {
    out += fmt::format("{} name=\"{}\"", key, k);
    if (typed) out += fmt::format(" string=\"{}\"", value.is_string());
    out += fmt::format(">{}{}\n", value.is_string() ? value.get<std::string>() : value.dump(), value_end);
  }
  return out + std::string(call_end);
}

}  // namespace kvasir::text
