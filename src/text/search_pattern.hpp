// Regular expressions that are searched for in text that comes in pieces, as response templates have them: Python's
// syntax without look-behind, references back and possessive repeats. '.' matches newlines, '^' and '$' stand for the
// ends of the text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir::text {

class SearchPattern {
 public:
  // Throws Error(kBadInput) for what is no expression, Error(kUnsupported) for what is not done here.
  explicit SearchPattern(std::string_view expression);
  // Any of these texts, the longest one first.
  static SearchPattern of_texts(std::vector<std::string> texts);

  struct Match {
    std::size_t at = 0, size = 0;
    std::map<std::string, std::string> groups = {};  // those with names that took part
  };
  struct Found {
    std::optional<Match> match;
    std::size_t sure = 0;  // whatever follows the text, no match begins in front of this place
  };
  // The first match at or behind `from`. Unless the text has ended (`end`), only if no text behind it can change that.
  // Work is bounded: what would take too long does not match.
  Found search(std::string_view text, std::size_t from, bool end) const;

  static bool is_word(std::uint32_t code);

  bool has_names() const { return !names_.empty(); }

  struct Set {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
    std::string classes;  // of w, W, d, D, s, S
    bool negated = false;
    bool has(std::uint32_t code) const;
  };
  struct Op {
    enum class Kind {
      kSet,
      kSplit,
      kJump,
      kSave,
      kMark,
      kMoved,
      kBegin,
      kEnd,
      kLastEnd,
      kEdge,
      kInner,
      kAhead,
      kNotAhead,
      kDone
    };
    Kind kind;
    int a = 0, b = 0;  // relative places; a slot; a set
  };

 private:
  SearchPattern() = default;
  class Parser;
  class Run;

  std::vector<Op> code_;
  std::vector<Set> sets_;
  std::vector<std::pair<std::string, int>> names_;  // and their first slot
  int slots_ = 0;
};

}  // namespace kvasir::text
