#include "text/special.hpp"

#include <algorithm>

namespace kvasir::text {

SpecialMatcher::SpecialMatcher(const Vocabulary& vocabulary, const std::vector<std::int32_t>& ids) {
  for (const auto id : ids) {
    if (!vocabulary.piece(id).empty()) names_.push_back({vocabulary.piece(id), id});
  }
  const auto less = [](const Name& a, const Name& b) { return a.text < b.text; };
  const auto equal = [](const Name& a, const Name& b) { return a.text == b.text; };
  std::stable_sort(names_.begin(), names_.end(), less);
  names_.erase(std::unique(names_.begin(), names_.end(), equal), names_.end());
  for (const auto& n : names_) {
    leads_[static_cast<unsigned char>(n.text[0])] = true;
    reversed_.emplace_back(n.text.rbegin(), n.text.rend());
    longest_ = std::max(longest_, n.text.size());
  }
  std::sort(reversed_.begin(), reversed_.end());
}

SpecialMatcher::Match SpecialMatcher::next(std::string_view text, std::size_t from) const {
  if (names_.empty()) return {};
  for (std::size_t i = from; i < text.size(); ++i) {
    if (!leads_[static_cast<unsigned char>(text[i])]) continue;
    if (const Match m = longest_at(text, i); m.id >= 0) return m;
  }
  return {};
}

std::size_t SpecialMatcher::begun_at_end(std::string_view text) const {
  for (std::size_t n = std::min(longest_, text.size() + 1); n-- > 2;) {
    const std::string_view end = text.substr(text.size() - n);
    auto it = std::lower_bound(names_.begin(), names_.end(), end,
                               [](const Name& name, std::string_view t) { return name.text < t; });
    if (it != names_.end() && it->text == end) ++it;  // a whole name
    if (it != names_.end() && it->text.starts_with(end)) return n;
  }
  return 0;
}

std::size_t SpecialMatcher::ended_at_begin(std::string_view text) const {
  std::string end;
  for (std::size_t n = std::min(longest_, text.size() + 1); n-- > 2;) {
    end.assign(text.substr(0, n));
    std::reverse(end.begin(), end.end());
    auto it = std::lower_bound(reversed_.begin(), reversed_.end(), end);
    if (it != reversed_.end() && *it == end) ++it;
    if (it != reversed_.end() && it->starts_with(end)) return n;
  }
  return 0;
}

// Narrows the range of names that agree with the text, one byte at a time. Names that end here sort first in it.
SpecialMatcher::Match SpecialMatcher::longest_at(std::string_view text, std::size_t begin) const {
  Match best;
  auto low = names_.begin(), high = names_.end();
  for (std::size_t depth = 0; low != high; ++depth) {
    if (low->text.size() == depth) {
      if (depth > 0) best = {begin, depth, low->id};
      ++low;
    }
    if (begin + depth == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[begin + depth]);
    const auto at = [depth](const Name& n) { return static_cast<unsigned char>(n.text[depth]); };
    low = std::partition_point(low, high, [&](const Name& n) { return at(n) < byte; });
    high = std::partition_point(low, high, [&](const Name& n) { return at(n) == byte; });
  }
  return best;
}

}  // namespace kvasir::text
