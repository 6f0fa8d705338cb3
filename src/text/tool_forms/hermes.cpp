// Hermes, Qwen2.5, Qwen3, Granite 4, SmolLM3:
//   <tool_call>
//   {"name": "f", "arguments": {"a": 1}}
//   </tool_call>
// any number of times, with or without text around.
#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_hermes {
namespace {

// GLM and Qwen3-Coder put other things between the same tags, Granite 3 a list behind one.
int match(std::string_view t) {
  return has(t, "<tool_call>") && (has(t, "arguments") || has(t, "</tool_call>")) && !has(t, "<arg_key>") &&
                 !has(t, "<function=")
             ? 2
             : 0;
}

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser(
      {.open = {"<tool_call>", "<tool_calls>", "<longcat_tool_call>", "<|action_start|><|plugin|>"},
       .close = {"</tool_call>", "</tool_calls>", "</longcat_tool_call>", "<|action_end|>"}},
      tools);
}

constexpr ObjectCall kCall{.open = "<tool_call>\n", .close = "\n</tool_call>"};
Grammar::Node call(const CallParts& p) { return kCall.grammar(p); }
std::string write(const std::string& name, const Json& arguments) { return kCall.write(name, arguments); }

constexpr std::string_view kMarks[] = {"<tool_call>", "</tool_call>"};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .separator = "\n", .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_hermes
