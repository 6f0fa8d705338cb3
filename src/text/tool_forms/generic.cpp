// Models whose chat template shows no tools: they are told in words to write
//   <tool_call>
//   {"name": "f", "arguments": {"a": 1}}
//   </tool_call>
// and what else they write instead is read, too: the object alone, with the names that other models have for its parts.
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_generic {
namespace {

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {"<tool_call>", "<|tool_call|>", "<function_call>"},
                            .close = {"</tool_call>", "<|/tool_call|>", "</function_call>"},
                            .at_start = true,
                            .require_arguments = true},
                           tools);
}

constexpr ObjectCall kCall{.open = "<tool_call>\n", .close = "\n</tool_call>"};
Grammar::Node call(const CallParts& p) { return kCall.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kCall.write(name, arguments); }

constexpr std::string_view kMarks[] = {"<tool_call>", "</tool_call>"};
constexpr std::string_view kOpens[] = {"<tool_call>", "<|tool_call|>", "<function_call>"};

}  // namespace

const ToolForm entry{.match = [](std::string_view) { return 0; },
                     .make = make,
                     .call = call,
                     .separator = "\n",
                     .write = write,
                     .marks = kMarks,
                     .bare = true,
                     .opens = kOpens};
}  // namespace kvasir::text::tool_forms_generic
