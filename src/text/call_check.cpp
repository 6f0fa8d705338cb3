#include "text/call_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/loose_json.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

constexpr int kMostDepth = 8;
constexpr std::size_t kMostFaults = 4;  // of one call: the rest says nothing new

const Json* schema_of(const Json& tools, std::string_view name) {
  for (const Json& tool : tools)
    if (tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
        tool["function"].value("name", Json()) == Json(name))
      return tool["function"].contains("parameters") ? &tool["function"]["parameters"] : nullptr;
  return nullptr;
}

void check_value(const Json& value, const Json& schema, const std::string& path, std::vector<std::string>& out,
                 int depth = 0) {
  if (!schema.is_object() || depth > kMostDepth || out.size() >= kMostFaults) return;
  if (const std::string fault = type_fault(value, &schema); !fault.empty())
    return out.push_back(path.empty() ? fault : fmt::format("'{}': {}", path, fault));
  const auto inner = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  const auto properties = schema.find("properties");
  if (value.is_object() && properties != schema.end() && properties->is_object())
    for (const auto& [key, part] : value.items())
      if (properties->contains(key)) check_value(part, (*properties)[key], inner(key), out, depth + 1);
  if (const auto required = schema.find("required");
      value.is_object() && required != schema.end() && required->is_array())
    for (const Json& key : *required)
      if (key.is_string() && !value.contains(key.get<std::string>()) && out.size() < kMostFaults)
        out.push_back(fmt::format("'{}' is missing", inner(key.get<std::string>())));
  if (value.is_array() && schema.contains("items"))
    for (std::size_t i = 0; i < value.size(); ++i)
      check_value(value[i], schema["items"], fmt::format("{}[{}]", path, i), out, depth + 1);
}

// Whether `before` ends with what stands in front of a tool's name where it is called.
bool introduces(std::string_view before, char next) {
  before = before.substr(0, before.find_last_not_of(" \t\r\n\"'") + 1);
  for (const std::string_view mark : {"name=", "function=", "tool=", "call:", "functions.", "Action:"})
    if (before.ends_with(mark)) return true;
  if (before.ends_with(':')) {  // "name": of some object
    const std::string_view key = before.substr(0, before.size() - 1);
    for (const std::string_view name : {"name\"", "name'", "function\"", "tool\"", "action\""})
      if (key.ends_with(name)) return true;
  }
  if (before.ends_with('[')) return next == '(';
  if (before.ends_with('<')) return next == '>' || next == ' ';
  if (!before.ends_with('>')) return false;
  const std::size_t open = before.rfind('<');  // a tag
  return open != before.npos && before.find_first_of(" \n", open) == before.npos;
}

}  // namespace

std::vector<std::string> call_faults(const ToolCall& call, const Json& tools) {
  if (!is_offered(&tools, call.name))
    return {fmt::format("the answer calls '{}', which is none of the tools", call.name)};
  std::vector<std::string> faults;
  const Json arguments = Json::parse(call.arguments, nullptr, false);
  if (!arguments.is_object()) {
    faults.emplace_back("its arguments are no JSON object");
  } else if (const Json* schema = schema_of(tools, call.name)) {
    check_value(arguments, *schema, "", faults);
  }
  for (std::string& fault : faults) fault = fmt::format("the call of '{}' is broken: {}", call.name, fault);
  return faults;
}

std::string unread_call(std::string_view content, const Json& tools) {
  for (const Json& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    const std::string name = tool["function"].value("name", "");
    if (name.empty()) continue;
    for (std::size_t at = content.find(name); at != content.npos; at = content.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
      if ((at > 0 && word(content[at - 1])) || (end < content.size() && word(content[end]))) continue;
      if (introduces(content.substr(0, at), end < content.size() ? content[end] : '\0')) return name;
    }
  }
  return {};
}

}  // namespace kvasir::text
