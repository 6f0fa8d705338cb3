// What the forms of tool calls have in common.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_form.hpp"

namespace kvasir::text {

// Finds the end of a JSON object in text that comes in pieces. Looks at brackets and strings only.
class ObjectScanner {
 public:
  // Goes on where the last call ended: `text` is what it was then and more behind. The size of the object once it is
  // complete, 0 before. REQUIRES: text begins with '{' or '['.
  std::size_t scan(std::string_view text);
  void reset() { *this = {}; }

 private:
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

// JSON as models write it to JSON: line breaks and other control characters inside strings are escaped.
class JsonCleaner {
 public:
  void append(std::string_view text, std::string& out);

 private:
  bool in_string_ = false, escaped_ = false;
};

// The call that the JSON text `object` stands for: {"name": ..., "arguments": {...}}. The name may be called
// "tool_name" or "function" too, the arguments "parameters" or "args"; "function" may stand around both. Arguments may
// be a string that holds an object; without any they are {} unless `require_arguments`. With `key_is_name` it is
// {NAME: {...}}. Nothing for everything else.
std::optional<ToolCall> parse_call(std::string_view object, bool require_arguments, bool key_is_name = false);

// Reads such an object while it is written: the call is in the output once its name is known and its arguments begin,
// or else when the object is complete.
class ObjectCallReader {
 public:
  enum class Result { kMore, kDone, kBad };
  ObjectCallReader(bool require_arguments, bool key_is_name)
      : require_arguments_(require_arguments), key_is_name_(key_is_name) {}

  // `text` is what it was in the last call and more behind. REQUIRES: text begins with '{', and not called after kDone.
  Result read(std::string_view text, ToolOutput& out);
  std::size_t size() const { return size_; }     // of the object, when kDone
  bool begun() const { return arguments_ > 0; }  // the call is in the output

 private:
  bool require_arguments_, key_is_name_;
  bool hopeless_ = false;  // it does not begin as calls do, so it is read when it is complete
  ObjectScanner whole_, inner_;
  JsonCleaner cleaner_;
  std::size_t size_ = 0, arguments_ = 0, inner_size_ = 0, given_ = 0;
};

// Content in which white space next to calls does not count.
class ContentWriter {
 public:
  void write(std::string_view text, ToolOutput& out);
  void after_call() { after_call_ = true; }
  void finish(ToolOutput& out);

 private:
  std::string space_;  // held back: it is dropped if a call follows and nothing else
  bool after_call_ = false;
};

// A parser that takes what it can from the text, step by step.
class StepParser : public ToolParser {
 public:
  void push(std::string_view text, ToolOutput& out) final;
  void finish(ToolOutput& out, bool cut) final;

 protected:
  // Takes something from buffer_, or changes what it waits for. False: it waits for more text, or at the end (`end`;
  // `cut` as in ToolParser::finish) there is nothing left to do.
  virtual bool step(bool end, bool cut, ToolOutput& out) = 0;

  std::string buffer_;
  ContentWriter writer_;
};

// How a form writes calls whose arguments are JSON.
struct CallStyle {
  std::vector<std::string_view> open;   // each begins a call, or a list of calls; the text in front is content
  std::vector<std::string_view> close;  // behind calls and in between; they say nothing
  std::string_view middle;              // between a name and its arguments; empty: the name stands in the object
  // Of what stands in front of `middle` or the object: the name. Null: all of it, without space.
  std::string (*name)(std::string_view head) = nullptr;
  bool key_is_name = false;        // {NAME: {...}}
  bool at_start = false;           // a text that begins with a call needs no mark
  bool require_arguments = false;  // an object without them is no call
};
std::unique_ptr<ToolParser> make_style_parser(const CallStyle& style, const Json* tools);

// Text in which marks stand around what is read in other ways than JSON.
class MarkedParser : public StepParser {
 protected:
  explicit MarkedParser(std::vector<std::string_view> open) : open_(std::move(open)) {}

  // Takes from `buffer` what it can, behind one of the marks. kMore: as far as it goes. kDone: the call is over. kBad:
  // it was no call, nothing was put out for it and nothing taken from the buffer.
  enum class Result { kMore, kDone, kBad };
  virtual Result read(std::string& buffer, ToolOutput& out, bool end) = 0;
  virtual void begin(std::string_view mark) = 0;
  virtual bool begun() const = 0;                // the call is in the output
  virtual void complete(ToolOutput& /*out*/) {}  // the model ended its text within the call
  virtual std::string_view closing() const = 0;  // the mark behind a call that is over, which may be missing

 private:
  bool step(bool end, bool cut, ToolOutput& out) final;
  bool content(bool end, bool cut, ToolOutput& out);

  std::vector<std::string_view> open_;
  std::string_view mark_;  // the last one
  int failures_ = 0;
  bool inside_ = false, called_ = false;
  bool behind_ = false;  // a call is over and its closing mark was not seen
};

// Arguments that are not JSON, one after the other, into the JSON text of an object.
class ArgumentsWriter {
 public:
  ArgumentsWriter(const Json* tools, std::string_view tool);

  bool is_text(std::string_view name) const;  // by the tool's schema: its value is a string, whatever it looks like
  void begin(std::string_view name, std::string& out);
  void text(std::string_view part, std::string& out);    // the next part of a string
  void value(std::string_view whole, std::string& out);  // JSON if it is such, a string otherwise
  void end(std::string& out);                            // of one argument
  void finish(std::string& out);                         // of all

 private:
  const Json* properties_ = nullptr;
  bool first_ = true, in_text_ = false;
};

// A call as one object: {"name": NAME, ARGUMENTS_KEY: {...}}, in a grammar and written; `open` and `close` stand around
// it.
struct ObjectCall {
  std::string_view arguments_key = "arguments", open = "", close = "";

  Grammar::Node grammar(const CallParts& parts) const;
  std::string write(const std::string& name, const Json& arguments) const;
};

// The grammar of arguments that are not JSON: `before` NAME `behind` VALUE `end` for each, in the schema's order.
// Strings are written as they are and do not hold `end`.
struct PlainArguments {
  std::string_view before, behind, end;
};
Grammar::Node plain_arguments(const CallParts& parts, const PlainArguments& form);

// The same with separators between them: NAME `behind` VALUE. Strings stand between two `quote`; as in JSON where that
// is empty.
struct ListedArguments {
  std::string_view behind, quote, separator;
};
Grammar::Node listed_arguments(const CallParts& parts, const ListedArguments& form);

void append_in_string(std::string& out, char c);  // with an escape where a JSON string needs one

// How many bytes at the end of `text` are a beginning of `tag`, but not all of it.
std::size_t partial_tag(std::string_view text, std::string_view tag);

std::size_t count_space(std::string_view text);  // bytes of ASCII white space at the begin

bool has(std::string_view chat_template, std::string_view what);

}  // namespace kvasir::text
