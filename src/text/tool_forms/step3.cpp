// Step 3:
//   <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f">
//   <steptml:parameter name="a">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_step3 {
namespace {

constexpr InvokeTags kTags{.section = "<｜tool_calls_begin｜>",
                           .section_end = "<｜tool_calls_end｜>",
                           .call = "<steptml:invoke",
                           .call_end = "</steptml:invoke>",
                           .key = "<steptml:parameter",
                           .value_end = "</steptml:parameter>"};

int match(std::string_view t) { return has(t, "<steptml:invoke") ? 4 : 0; }
std::unique_ptr<ToolParser> make(const Json* tools) {
  return kTags.parser(tools, {"<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_begin｜>", "<｜tool_sep｜>",
                              "<｜tool_call_end｜>"});
}
Grammar::Node call(const CallParts& p) { return kTags.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kTags.write(name, arguments); }

constexpr std::string_view kMarks[] = {"<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<｜tool_call_begin｜>",
                                       "<｜tool_call_end｜>", "<｜tool_sep｜>"};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>",
                     .separator = "<｜tool_call_end｜><｜tool_call_begin｜>function<｜tool_sep｜>",
                     .end = "<｜tool_call_end｜><｜tool_calls_end｜>",
                     .write = write,
                     .marks = kMarks};
}  // namespace kvasir::text::tool_forms_step3
