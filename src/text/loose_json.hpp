// JSON from what models write in its place: Python's literals, keys without quotes, strings in other marks.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace kvasir::text {

struct Notation {
  std::string_view quote = {};  // stands around strings, which then have no escapes; " and ' do so anyway
  bool call = false;            // the value begins with '(' and holds NAME=VALUE, as Python's calls do
  // JSON stays as it is, byte for byte; otherwise the blanks outside of strings are those of ", " and ": ".
  bool exact = true;
  // Marks: one of them ends what is inside. Only strings that are values hold them, and only where the whole object is
  // well formed; with `quote` nothing does.
  std::vector<std::string_view> stops = {};
};

// Turns an object or a list into JSON while it is written. What is JSON stays as it is, but for control characters in
// strings. Words that are no JSON are strings; quotes within a string and commas that are missing or too many are
// mended. Whatever the pieces, the output is the same and only grows.
class LooseJson {
 public:
  // `names`: of a call's parameters, for arguments that stand without theirs.
  explicit LooseJson(Notation notation = {}, std::vector<std::string> names = {})
      : notation_(std::move(notation)), names_(std::move(names)) {}

  // Goes on where the last call ended: `text` is what it was then and more behind; `end`: nothing will follow. True:
  // the value is complete. REQUIRES: not called after that; text begins with '{', '[' or '('.
  bool convert(std::string_view text, bool end, std::string& out);
  bool done() const { return done_; }
  std::size_t taken() const { return at_; }          // bytes of the text; when done, where the value ends
  const std::string& word() const { return word_; }  // of what was taken, what is not written
  bool stopped() const { return stopped_; }          // at a mark that stands where none may

 private:
  enum class Place { kKey, kColon, kValue, kComma };
  struct Level {
    char source, close;
    bool object;
  };

  std::size_t step(std::string_view rest, std::string& out);
  std::size_t string_step(std::string_view rest, bool end, std::string& out);
  bool closes(std::string_view behind) const;
  bool stops(std::string_view text, bool end);
  int mark_at(std::string_view rest, bool end) const;
  void begin_value(std::string& out, bool is_word_key = false);
  void open(char c, std::string& out);
  void close(char c, std::string& out);
  void pop(std::string& out);
  void flush_word(std::string& out);
  bool in_call() const { return notation_.call && stack_.size() == 1; }

  Notation notation_;
  std::vector<std::string> names_;
  std::vector<Level> stack_;
  std::string word_, pending_;  // a bare word; blanks and a comma that are not written yet
  std::string_view delimiter_;  // of the string
  std::size_t at_ = 0, positional_ = 0;
  std::size_t spoken_ = 0;             // before that, strings may hold marks
  std::shared_ptr<LooseJson> beyond_;  // reads on behind a mark within a string
  Place place_ = Place::kValue;
  bool in_string_ = false, is_key_ = false, done_ = false, stopped_ = false;
  bool damaged_ = false;  // quotes, commas or brackets are missing or too many
};

// A whole value that stands in text, as JSON of a type that `schema` (of one parameter, or null) allows: JSON and
// Python's literals where they are that, otherwise the text as a string.
std::string typed_value(std::string_view text, const Json* schema);

// Whether a value by this schema is text whatever it looks like.
bool is_text_only(const Json* schema);

// In which way `value` is not of a type that the schema allows, "expected an integer"; "" where it is, or nobody knows.
std::string type_fault(const Json& value, const Json* schema);

void append_in_string(std::string& out, char c);  // with an escape where a JSON string needs one

}  // namespace kvasir::text
