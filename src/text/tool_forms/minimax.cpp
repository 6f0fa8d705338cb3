// MiniMax-M2:
//   <minimax:tool_call>
//   <invoke name="f">
//   <parameter name="a">1</parameter>
//   </invoke>
//   </minimax:tool_call>
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_minimax {
namespace {

constexpr InvokeTags kTags{.section = "<minimax:tool_call>",
                           .section_end = "</minimax:tool_call>",
                           .call = "<invoke",
                           .call_end = "</invoke>",
                           .key = "<parameter",
                           .value_end = "</parameter>"};

int match(std::string_view t) { return has(t, "<invoke name=") ? 3 : 0; }
std::unique_ptr<ToolParser> make(const Json* tools) { return kTags.parser(tools, {"<function_calls>"}); }
Grammar::Node call(const CallParts& p) { return kTags.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kTags.write(name, arguments); }

constexpr std::string_view kMarks[] = {"<minimax:tool_call>", "</minimax:tool_call>"};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<minimax:tool_call>\n",
                     .separator = "\n",
                     .end = "\n</minimax:tool_call>",
                     .write = write,
                     .marks = kMarks};
}  // namespace kvasir::text::tool_forms_minimax
