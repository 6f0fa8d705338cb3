// Finds the names of special tokens in text.
#pragma once

#include <array>
#include <cstdint>
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

 private:
  struct Name {
    std::string_view text;
    std::int32_t id;
  };

  Match longest_at(std::string_view text, std::size_t begin) const;

  std::vector<Name> names_;        // sorted by text, all different, none empty
  std::array<bool, 256> leads_{};  // bytes that some name begins with
};

}  // namespace kvasir::text
