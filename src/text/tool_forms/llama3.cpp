// Llama 3.1 and later: the text is a call and nothing else, with or without the tag, several separated by ';':
//   <|python_tag|>{"name": "f", "parameters": {"a": 1}}
// A tag may also follow content.
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_llama3 {
namespace {

constexpr std::string_view kMarks[] = {"<|python_tag|>"};

int match(std::string_view t) {
  return has(t, kMarks[0]) || (has(t, "\"parameters\": ") && has(t, "{\"name\": ")) ? 1 : 0;
}

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0]}, .at_start = true, .require_arguments = true}, tools);
}

constexpr ObjectCall kCall{.arguments_key = "parameters"};
Grammar::Node call(const CallParts& p) { return kCall.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kCall.write(name, arguments); }

constexpr std::string_view kOpens[] = {"<|python_tag|>", "{\"name\":", "{\"name\" :", "{ \"name\""};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .separator = "; ",
                     .write = write,
                     .marks = kMarks,
                     .bare = true,
                     .opens = kOpens};
}  // namespace kvasir::text::tool_forms_llama3
