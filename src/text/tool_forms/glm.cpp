// GLM 4.5 and later:
//   <tool_call>f
//   <arg_key>a</arg_key>
//   <arg_value>1</arg_value>
//   </tool_call>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_glm {
namespace {

constexpr std::string_view kCall = "<tool_call>", kEndCall = "</tool_call>", kKey = "<arg_key>", kEndKey = "</arg_key>",
                           kValue = "<arg_value>", kEndValue = "</arg_value>";

int match(std::string_view t) { return has(t, kKey) ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_tag_parser({.section = {kCall},
                          .section_end = {kEndCall},
                          .key = kKey,
                          .key_end = kEndKey,
                          .value = kValue,
                          .value_end = kEndValue},
                         tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("<tool_call>" + p.name + "\n"),
                     plain_arguments(p, {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"}),
                     g.text("</tool_call>")});
}

std::string write(const std::string& name, const Json& arguments) {
  std::string text = "<tool_call>" + name + "\n";
  for (const auto& [key, value] : arguments.items())
    text += "<arg_key>" + key + "</arg_key>\n<arg_value>" +
            (value.is_string() ? value.get<std::string>() : value.dump()) + "</arg_value>\n";
  return text + "</tool_call>";
}

constexpr std::string_view kMarks[] = {kCall, kEndCall, kKey, kEndKey, kValue, kEndValue};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .separator = "\n", .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_glm
