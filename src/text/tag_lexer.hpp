// Finds the tags of a form in text that comes in pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_json.hpp"

namespace kvasir::text {

struct Tag {
  enum class Kind { kNone, kSection, kSectionEnd, kCall, kCallEnd, kKey, kKeyEnd, kValue, kValueEnd, kDamaged };
  Kind kind = Kind::kNone;
  std::size_t at = 0, size = 0;   // kNone: what stands before `at` is no tag
  std::string name = {};          // of a tag that has one
  std::optional<bool> text = {};  // it says whether the value is text
};

class TagLexer {
 public:
  static constexpr std::size_t kLongest = 256;
  explicit TagLexer(const TagStyle& style);
  // The first tag at or behind `from`; `end`: nothing follows the text.
  Tag find(std::string_view text, std::size_t from, bool end) const;
  // Of a tag that would end more than a value: 1 when it does; 0 when it is text, for the value's own end comes behind
  // it and no tag that opens, nor does it stand on a line of its own; -1: nobody knows yet.
  int ends_value(std::string_view text, const Tag& tag, bool end) const;
  std::vector<std::string_view> marks() const;  // with which tags begin

 private:
  using Known = std::pair<std::string_view, Tag::Kind>;
  std::optional<Tag> named(const Known& tag, std::string_view rest, bool end) const;
  std::optional<Tag> unknown(std::string_view rest, bool end) const;

  std::vector<Known> tags_;
  std::string_view own_;
};

}  // namespace kvasir::text
