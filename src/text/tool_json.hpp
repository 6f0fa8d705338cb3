// What the forms of tool calls have in common.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/tool_form.hpp"

namespace kvasir::text {

// Finds the end of a JSON object in text that comes in pieces. Looks at brackets and strings only.
class ObjectScanner {
 public:
  // Goes on where the last call ended: `text` is what it was then and more behind. The size of the object once it is
  // complete, 0 before. REQUIRES: text begins with '{'.
  std::size_t scan(std::string_view text);
  void reset() { *this = {}; }

 private:
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

// The call that the JSON text `object` stands for: {"name": ..., "arguments" or "parameters": {...}}, the name also as
// "function", alone or around both. Arguments may be a string that holds an object; without any they are {} unless
// `require_arguments`. Nothing for everything else.
std::optional<ToolCall> parse_call(std::string_view object, bool require_arguments);

// Content in which white space next to calls does not count.
class ContentWriter {
 public:
  void write(std::string_view text, ToolOutput& out);
  void call(ToolCall call, ToolOutput& out);
  void finish(ToolOutput& out);

 private:
  std::string space_;  // held back: it is dropped if a call follows and nothing else
  bool after_call_ = false;
};

// How many bytes at the end of `text` are a beginning of `tag`, but not all of it.
std::size_t partial_tag(std::string_view text, std::string_view tag);

std::size_t count_space(std::string_view text);  // bytes of ASCII white space at the begin

}  // namespace kvasir::text
