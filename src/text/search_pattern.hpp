// Regular expressions that are searched for in text that comes in pieces, as response templates have them: Python's
// syntax, by PCRE2, without look-behind. '.' matches newlines, '^' and '$' stand for the ends of the text.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text {

class SearchPattern {
 public:
  static bool available();  // false: this was built without PCRE2

  // Throws Error(kBadInput) for what is no expression, Error(kUnsupported) for what is not done here, and for
  // everything where it is not available().
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

 private:
  std::shared_ptr<void> code_;  // of PCRE2
};

}  // namespace kvasir::text
