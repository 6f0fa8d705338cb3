// Answers that are tool calls and nothing else.
#pragma once

#include <memory>
#include <string>

#include "base/json.hpp"
#include "text/grammar.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

// Calls of `tools`, an array as the OpenAI API has it with names checked: of the one called `name` alone where that is
// not empty, one or as many as the model makes (`many`). Arguments conform to the tool's `parameters` as far as
// grammars can say that; entirely, or refused, where the tool is `strict`. Throws Error(kBadInput) that names the
// field; Error(kUnsupported) when calls cannot be forced in this form.
std::shared_ptr<const Grammar> grammar_of_calls(const Entry<ToolForm>* form, const Json& tools, const std::string& name,
                                                bool many);

}  // namespace kvasir::text
