// What the forms of tool calls have in common.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/loose_json.hpp"
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
  ObjectCallReader(bool require_arguments, bool key_is_name, std::vector<std::string_view> stops = {})
      : require_arguments_(require_arguments), key_is_name_(key_is_name), loose_({.stops = std::move(stops)}) {}

  // `text` is what it was in the last call and more behind; `end`: nothing will follow. REQUIRES: text begins with '{',
  // and not called after kDone.
  Result read(std::string_view text, bool end, ToolOutput& out);
  bool begun() const { return arguments_ > 0; }  // the call is in the output
  const LooseJson& loose() const { return loose_; }
  const std::string& json() const { return json_; }  // what was read, as JSON

 private:
  bool require_arguments_, key_is_name_;
  bool hopeless_ = false;  // it does not begin as calls do, so it is read when it is complete
  LooseJson loose_;
  std::string json_;
  ObjectScanner inner_;
  std::size_t arguments_ = 0, inner_size_ = 0, given_ = 0;
};

// Content in which white space next to calls does not count, and marks of calls are none: what is left of them is
// dropped, but for those that a sentence speaks of, with blanks or quotes on both sides.
class ContentWriter {
 public:
  explicit ContentWriter(std::vector<std::string_view> marks = {}) : marks_(std::move(marks)) {}
  void write(std::string_view text, ToolOutput& out);
  void mark(std::string_view text, ToolOutput& out);  // what looks like one, beside `marks`
  void after_call(ToolOutput& out);
  void finish(ToolOutput& out, bool cut);

 private:
  void take(bool end, ToolOutput& out);
  void decide(std::string_view behind, ToolOutput& out);
  void put(std::string_view text, ToolOutput& out);

  std::vector<std::string_view> marks_;
  std::string held_;   // not looked at yet
  std::string mark_;   // one of which the next two characters decide
  std::string space_;  // held back: it is dropped if a call follows and nothing else
  char last_ = '\n';   // before the mark
  bool after_call_ = false;
};

// A parser that takes what it can from the text, step by step.
class StepParser : public ToolParser {
 public:
  explicit StepParser(std::vector<std::string_view> marks = {}) : writer_(std::move(marks)) {}
  void push(std::string_view text, ToolOutput& out) final;
  void finish(ToolOutput& out, bool cut) final;

 protected:
  // Takes something from buffer_, or changes what it waits for. False: it waits for more text, or at the end (`end`;
  // `cut` as in ToolParser::finish) there is nothing left to do.
  virtual bool step(bool end, bool cut, ToolOutput& out) = 0;

  std::string buffer_;
  ContentWriter writer_;
};

// How a form writes calls whose arguments are an object, in JSON or nearly so.
struct CallStyle {
  std::vector<std::string_view> open;   // each begins a call, or a list of calls; the text in front is content
  std::vector<std::string_view> close;  // behind calls and in between; they say nothing
  std::string_view middle;              // between a name and its arguments; empty: the name stands in the object
  // Of what stands in front of `middle` or the object: the name. Null: all of it, without space.
  std::string (*name)(std::string_view head) = nullptr;
  bool key_is_name = false;                 // {NAME: {...}}
  bool at_start = false;                    // a text that begins with a call needs no mark
  bool require_arguments = false;           // an object without them is no call
  Notation notation = {};                   // of arguments behind a name
  std::vector<std::string_view> also = {};  // other marks of the form, which the rest does not tell
};
std::unique_ptr<ToolParser> make_style_parser(const CallStyle& style, const Json* tools);

// How a form writes calls whose arguments are tags, one for each. A tag that ends with '>' stands as it is; another has
// a name within: <function=f>, <invoke name="f">.
struct TagStyle {
  std::vector<std::string_view> section, section_end;  // around one call or more
  std::string_view call, call_end;                     // empty: the name is the text behind `section`
  std::string_view key, key_end;                       // around the parameter's name, which may stand in the tag `key`
  std::string_view value, value_end;                   // around its value; behind a tag with a name there is no `value`
  bool lines = false;                                  // values have lines of their own
  std::string_view own = {};                           // what stands in all tags of the form and nowhere else
};
std::unique_ptr<ToolParser> make_tag_parser(const TagStyle& style, const Json* tools);

// Tags as <invoke name="f"> and <parameter name="a">, in which families differ by what stands in front of the words.
struct InvokeTags {
  std::string_view section, section_end;  // around all calls
  std::string_view call, call_end;
  std::string_view key, value_end;
  bool typed = false;         // the parameter's tag says whether the value is a string
  std::string_view own = {};  // as in TagStyle

  std::unique_ptr<ToolParser> parser(const Json* tools, std::vector<std::string_view> sections = {}) const;
  Grammar::Node grammar(const CallParts& parts) const;
  std::string write(const std::string& name, const Json& arguments) const;
};

// Around the parser of a form: an answer that is nothing but calls of offered tools is calls, whatever stands around
// them, such as a code fence or another family's tags. `own`: marks that the form reads itself.
std::unique_ptr<ToolParser> make_bare_parser(std::unique_ptr<ToolParser> inner, std::vector<std::string_view> own,
                                             const Json& tools);

// Arguments that are not JSON, one after the other, into the JSON text of an object.
class ArgumentsWriter {
 public:
  ArgumentsWriter(const Json* tools, std::string_view tool);

  bool is_text(std::string_view name) const;  // by the tool's schema: its value is a string, whatever it looks like
  bool has(std::string_view name) const;      // it was given already
  // What is written of an argument that was there before is nothing.
  void begin(std::string_view name, std::string& out);
  void text(std::string_view part, std::string& out);    // the next part of a string
  void value(std::string_view whole, std::string& out);  // of the type that the schema says
  void end(std::string& out);                            // of one argument
  void finish(std::string& out);                         // of all

 private:
  const Json* properties_ = nullptr;
  const Json* schema_ = nullptr;  // of the argument
  std::vector<std::string> given_;
  bool in_text_ = false, again_ = false;
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
  std::string_view behind_json = {};  // where the value is no string; empty: the same
};
Grammar::Node plain_arguments(const CallParts& parts, const PlainArguments& form);

// The same with separators between them: NAME `behind` VALUE. Strings stand between two `quote`; as in JSON where that
// is empty.
struct ListedArguments {
  std::string_view behind, quote, separator;
};
Grammar::Node listed_arguments(const CallParts& parts, const ListedArguments& form);

// The schemas of a tool's parameters by their names; null: not known.
const Json* parameters_of(const Json* tools, std::string_view tool);
bool is_offered(const Json* tools, std::string_view tool);

// How many bytes at the end of `text` are a beginning of `tag`, but not all of it.
std::size_t partial_tag(std::string_view text, std::string_view tag);

// Whether the object that begins `text` can be a call, as far as its first key tells: other JSON need not be held back.
int begins_call(std::string_view text);  // 1: it can; 0: it cannot; -1: nobody knows yet
inline bool plausible_call(std::string_view text) { return begins_call(text) != 0; }

std::size_t count_space(std::string_view text);  // bytes of ASCII white space at the begin

bool has(std::string_view chat_template, std::string_view what);

}  // namespace kvasir::text
