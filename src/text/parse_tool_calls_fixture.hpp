// A whole text of a form of tool calls at once.
#pragma once

#include "text/tool_form.hpp"

namespace kvasir::text {

inline ToolOutput parse_tool_calls(const Entry<ToolForm>* form, std::string_view text, const Json* tools = nullptr) {
  ToolOutput out;
  const auto parser = make_tool_parser(form, tools);
  parser->push(text, out);
  parser->finish(out, false);
  return out;
}

}  // namespace kvasir::text
