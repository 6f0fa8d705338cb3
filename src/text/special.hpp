// Finds the names of special tokens in text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace kvasir::text {

class SpecialMatcher {
 public:
  SpecialMatcher() = default;
  // Tokens without a name are left out. The names stay in `vocabulary`, which must outlive this.
  SpecialMatcher(const Vocabulary& vocabulary, const std::vector<std::int32_t>& ids);

  struct Match {
    std::size_t begin = 0;
    std::size_t size = 0;
    std::int32_t id = -1;  // -1: none found
  };

  // The leftmost name in `text` at or behind `from`, and of those that begin there the longest.
  // Takes time linear in the distance, times the length of the longest name in the worst case.
  Match next(std::string_view text, std::size_t from) const;

  // How many bytes at the end of `text` begin some name, and how many at its beginning end one, whole names left out;
  // 0 when it is less than 2. Whoever joins two texts makes a name only if one of them holds two bytes of it.
  std::size_t begun_at_end(std::string_view text) const;
  std::size_t ended_at_begin(std::string_view text) const;

 private:
  struct Name {
    std::string_view text;
    std::int32_t id;
  };

  Match longest_at(std::string_view text, std::size_t begin) const;

  std::vector<Name> names_;            // sorted by text, all different, none empty
  std::vector<std::string> reversed_;  // their bytes, last first; sorted
  std::size_t longest_ = 0;
  std::array<bool, 256> leads_{};  // bytes that some name begins with
};

}  // namespace kvasir::text
