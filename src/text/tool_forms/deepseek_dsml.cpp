// DeepSeek V3.2:
//   <｜DSML｜function_calls>
//   <｜DSML｜invoke name="f">
//   <｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>
//   </｜DSML｜invoke>
//   </｜DSML｜function_calls>
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_deepseek_dsml {
namespace {

constexpr InvokeTags kTags{.section = "<｜DSML｜function_calls>",
                           .section_end = "</｜DSML｜function_calls>",
                           .call = "<｜DSML｜invoke",
                           .call_end = "</｜DSML｜invoke>",
                           .key = "<｜DSML｜parameter",
                           .value_end = "</｜DSML｜parameter>",
                           .typed = true,
                           .own = "｜DSML｜"};

int match(std::string_view t) { return has(t, "｜DSML｜") ? 4 : 0; }
std::unique_ptr<ToolParser> make(const Json* tools) { return kTags.parser(tools, {"<｜DSML｜tool_calls>"}); }
Grammar::Node call(const CallParts& p) { return kTags.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kTags.write(name, arguments); }

constexpr std::string_view kMarks[] = {"｜DSML｜", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<｜DSML｜function_calls>\n",
                     .separator = "\n",
                     .end = "\n</｜DSML｜function_calls>",
                     .write = write,
                     .marks = kMarks};
}  // namespace kvasir::text::tool_forms_deepseek_dsml
