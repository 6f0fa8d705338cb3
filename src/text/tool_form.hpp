// Contract of an entry in text/tool_forms: how a model writes tool calls into its text.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/registry.hpp"
#include "text/grammar.hpp"
#include "text/json_schema.hpp"

namespace kvasir::text {

struct ToolCall {
  std::string name;
  std::string arguments;  // text of a JSON object, as the model wrote it; of a call that is cut its beginning
};

// What generated text turned out to be. Content, reasoning and the last call's arguments only grow; a server sends
// what is new.
struct ToolOutput {
  std::string content;
  std::string reasoning;  // of forms that have a place for it
  std::vector<ToolCall> calls;
};

// Tells content from calls while the text is still being made. A call is in the output as soon as its name is known and
// its arguments begin. Content that could still become part of a call is held back, and so is white space that could
// stand in front of one; what looks like a call but is none is content. Whatever the pieces in which the text comes,
// the output is the same.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual void push(std::string_view text, ToolOutput& out) = 0;
  // The end of the text. `cut`: the model had not ended it. Then the beginning of a call that has no name yet is
  // nothing, otherwise it is content. REQUIRES: nothing is pushed afterwards.
  virtual void finish(ToolOutput& out, bool cut) = 0;
  virtual bool thinking() const { return false; }  // what was pushed last is reasoning, or may be
};

// What the calls of one tool in a grammar are made from.
struct CallParts {
  Grammar& grammar;
  const std::string& name;    // of the tool
  SchemaGrammar* parameters;  // null: it takes none
  std::string index;          // of the call among the answer's calls, for forms that number them
  // Some JSON text of an object with the arguments.
  Grammar::Node arguments() const { return parameters ? parameters->object() : grammar.text("{}"); }
};

struct ToolForm {
  // How surely `chat_template` asks the model for this form; 0: it does not. The highest wins, then the first name.
  int (*match)(std::string_view chat_template);
  // `tools`: the request's, or null; they outlive the parser. Forms whose arguments are no JSON read types there.
  std::unique_ptr<ToolParser> (*make)(const Json* tools);
  // One call in a grammar; null: calls in this form cannot be forced. Around all calls stand `begin` and `end`, between
  // two of them `separator`.
  Grammar::Node (*call)(const CallParts& parts) = nullptr;
  std::string_view begin = {}, separator = {}, end = {};
  bool numbered = false;  // `call` writes CallParts::index
  // The call as the model would write it, for histories that a template does not show; null: as JSON.
  std::string (*write)(const std::string& name, const Json& arguments) = nullptr;
  // Control tokens that are part of the form: they are text in what the parser gets.
  std::span<const std::string_view> marks = {};
  bool always = false;  // answers without tools are in this form too
  bool bare = false;    // a call without any mark is in this form
  // Texts with which calls begin, and nothing else does: where calls are not wanted, they are not generated. None: the
  // first of `marks`, if there is one.
  std::span<const std::string_view> opens = {};
  // Words of reasoning_effort that such models know, the least first, for forms that have a place for reasoning.
  std::span<const std::string_view> efforts = {};
};

std::span<const Entry<ToolForm>> tool_forms();

// The form that `chat_template` uses; null when no entry knows it.
const Entry<ToolForm>* find_tool_form(std::string_view chat_template);
// The form of models that know none: what is described to them in words.
const Entry<ToolForm>* generic_tool_form();

// A parser of that form; without one (null) all text is content. With `anyhow` an answer that is nothing but calls of
// `tools` is calls, in whatever form.
std::unique_ptr<ToolParser> make_tool_parser(const Entry<ToolForm>* form, const Json* tools = nullptr,
                                             bool anyhow = true);

// The calls as a text in this form.
std::string write_tool_calls(const Entry<ToolForm>& form, std::span<const ToolCall> calls);
// What to say to a model about `tools` that its template does not show, and how to call them.
std::string tool_instructions(const Entry<ToolForm>& form, const Json& tools);

}  // namespace kvasir::text
