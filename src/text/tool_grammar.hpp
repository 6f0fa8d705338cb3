// Answers that are tool calls and nothing else, or else something that is no call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.hpp"
#include "text/grammar.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

struct CallRules {
  std::string name;  // of the only tool that may be called; empty: any
  bool many = true;  // more than one call
  // Adds what the answer may be instead; null: it is a call.
  std::function<Grammar::Node(Grammar&)> otherwise = nullptr;
};

// Calls of `tools`, an array as the OpenAI API has it with names checked. Arguments are objects and conform to the
// tool's `parameters` as far as grammars can say that, with a warning for what they cannot; entirely, or refused, where
// the tool is `strict`. Throws Error(kBadInput) that names the field; Error(kUnsupported) when calls cannot be forced
// in this form.
std::shared_ptr<const Grammar> grammar_of_calls(const Entry<ToolForm>* form, const Json& tools, const CallRules& rules,
                                                Warnings* warnings = nullptr);

// Any text in which the model calls nothing but `tools`, of all tools that it was shown; none of them may be left.
// Null: it is not known how calls begin in this form. Throws as grammar_of_calls.
std::shared_ptr<const Grammar> grammar_of_text(const Entry<ToolForm>* form, const Json& tools, bool many,
                                               Warnings* warnings = nullptr);

}  // namespace kvasir::text
