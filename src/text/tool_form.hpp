// Contract of an entry in text/tool_forms: how a model writes tool calls into its text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"

namespace kvasir::text {

struct ToolCall {
  std::string name;
  std::string arguments;  // text of a JSON object
};

// What generated text turned out to be. Appended to; a server sends what is new.
struct ToolOutput {
  std::string content;
  std::vector<ToolCall> calls;
};

// Tells content from calls while the text is still being made. Content that could still become part of a call is held
// back, and so is white space that could stand in front of one; what looks like a call but is none is content. Whatever
// the pieces in which the text comes, the output is the same.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual void push(std::string_view text, ToolOutput& out) = 0;
  // The end of the text. REQUIRES: nothing is pushed afterwards.
  virtual void finish(ToolOutput& out) = 0;
};

// How a call is written, for answers that have to be calls: open, {"name": "f", "ARGUMENTS": {...}}, close; the
// separator between two.
struct ToolWriting {
  std::string_view open, arguments, close, separator;
};

struct ToolForm {
  // How surely `chat_template` asks the model for this form; 0: it does not. The highest wins, then the first name.
  int (*match)(std::string_view chat_template);
  std::unique_ptr<ToolParser> (*make)();
  ToolWriting writing = {};  // no name for arguments: calls in this form cannot be forced
};

std::span<const Entry<ToolForm>> tool_forms();

// The form that `chat_template` uses; null when no entry knows it.
const Entry<ToolForm>* find_tool_form(std::string_view chat_template);

// A parser of that form; without one (null) all text is content.
std::unique_ptr<ToolParser> make_tool_parser(const Entry<ToolForm>* form);

// The whole text at once.
ToolOutput parse_tool_calls(const Entry<ToolForm>* form, std::string_view text);

}  // namespace kvasir::text
