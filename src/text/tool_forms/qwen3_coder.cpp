// Qwen3-Coder, Qwen3.5, Seed-OSS, Nemotron 3:
//   <tool_call>
//   <function=f>
//   <parameter=a>
//   1
//   </parameter>
//   </function>
//   </tool_call>
// Values of parameters that the schema calls strings are taken as they are, others as JSON where they are that.
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_qwen3_coder {
namespace {

constexpr std::string_view kCall = "<tool_call>", kEndCall = "</tool_call>";

int match(std::string_view t) { return has(t, "<function=") && has(t, "<parameter=") ? 3 : 0; }

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_tag_parser({.section = {kCall, "<seed:tool_call>"},
                          .section_end = {kEndCall, "</seed:tool_call>"},
                          .call = "<function",
                          .call_end = "</function>",
                          .key = "<parameter",
                          .value_end = "</parameter>",
                          .lines = true},
                         tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("<tool_call>\n<function=" + p.name + ">\n"),
                     plain_arguments(p, {"<parameter=", ">\n", "\n</parameter>\n"}),
                     g.text("</function>\n</tool_call>")});
}

std::string write(const std::string& name, const Json& arguments) {
  std::string text = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : arguments.items())
    text += "<parameter=" + key + ">\n" + (value.is_string() ? value.get<std::string>() : value.dump()) +
            "\n</parameter>\n";
  return text + "</function>\n</tool_call>";
}

constexpr std::string_view kMarks[] = {kCall, kEndCall};

constexpr std::string_view kOpens[] = {kCall, "<function="};

}  // namespace

const ToolForm entry{
    .match = match, .make = make, .call = call, .separator = "\n", .write = write, .marks = kMarks, .opens = kOpens};

}  // namespace kvasir::text::tool_forms_qwen3_coder
