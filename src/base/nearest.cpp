#include "base/nearest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace kvasir {
namespace {

constexpr std::size_t kLongest = 64;

// Optimal string alignment distance with three rolling rows. REQUIRES: both at most kLongest bytes.
std::size_t distance(std::string_view a, std::string_view b) {
  using Row = std::array<std::size_t, kLongest + 1>;
  Row before{}, above{}, row{};
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

}  // namespace

std::string nearest(std::string_view wanted, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = kLongest;
  if (wanted.size() > kLongest) return best;
  for (const std::string& c : candidates) {
    if (c.size() > kLongest) continue;
    const std::size_t d = distance(wanted, c);
    if (d < best_distance && 3 * d <= std::max(wanted.size(), c.size())) {
      best = c;
      best_distance = d;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string> candidates) {
  const std::string near = nearest(wanted, candidates);
  return near.empty() ? std::string() : " (did you mean '" + near + "'?)";
}

}  // namespace kvasir
