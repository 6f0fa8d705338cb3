// Muse Glimmer:
//   <atem:function_calls>
//   <atem:invoke name="f">
//   <atem:parameter name="a">1</atem:parameter>
//   </atem:invoke>
//   </atem:function_calls>
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_muse {
namespace {

constexpr InvokeTags kTags{.section = "<atem:function_calls>",
                           .section_end = "</atem:function_calls>",
                           .call = "<atem:invoke",
                           .call_end = "</atem:invoke>",
                           .key = "<atem:parameter",
                           .value_end = "</atem:parameter>"};

int match(std::string_view t) { return has(t, "<atem:invoke") ? 4 : 0; }
std::unique_ptr<ToolParser> make(const Json* tools) { return kTags.parser(tools); }
Grammar::Node call(const CallParts& p) { return kTags.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kTags.write(name, arguments); }

constexpr std::string_view kMarks[] = {"<atem:function_calls>", "</atem:function_calls>"};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<atem:function_calls>\n",
                     .separator = "\n",
                     .end = "\n</atem:function_calls>",
                     .write = write,
                     .marks = kMarks};
}  // namespace kvasir::text::tool_forms_muse
