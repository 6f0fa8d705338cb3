// What is wrong with the calls of an answer, in words for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

// "the call of 'f' is broken: ...", one for each fault: no tool of this name, arguments that are no JSON object, values
// of other types than the tool's schema says, arguments that it requires and that are missing. `tools`: the request's.
std::vector<std::string> call_faults(const ToolCall& call, const Json& tools);

// The name of the tool that `content` seems to call in a form that nobody reads; "": none.
std::string unread_call(std::string_view content, const Json& tools);

}  // namespace kvasir::text
