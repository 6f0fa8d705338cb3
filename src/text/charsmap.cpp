#include "text/charsmap.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr std::uint32_t kValue = 0x80000000;

std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
std::uint32_t label_of(std::uint32_t unit) { return unit & (kValue | 0xff); }

}  // namespace

Charsmap::Charsmap(const std::vector<std::int64_t>& bytes, const std::string& context) {
  const auto fail = [&](const std::string& message) { throw Error(Code::kBadInput, message, context); };
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]) & 0xff; };
  const auto word = [&](std::size_t i) { return byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24; };
  if (bytes.size() < 4) fail(fmt::format("has {} bytes, expected at least 4", bytes.size()));
  const std::size_t size = word(0);
  if (size % 4 != 0 || size > bytes.size() - 4)
    fail(fmt::format("its tree has {} bytes, expected a multiple of 4, at most {}", size, bytes.size() - 4));
  for (std::size_t i = 4; i < 4 + size; i += 4) units_.push_back(word(i));
  for (std::size_t i = 4 + size; i < bytes.size(); ++i) texts_.push_back(static_cast<char>(byte(i)));
  if (!units_.empty() && (texts_.empty() || texts_.back() != '\0')) fail("its last text does not end, expected a 0");
}

template <class Visit>
void Charsmap::walk(std::string_view text, Visit visit) const {
  if (units_.empty()) return;
  std::uint32_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    node ^= label;
    if (label == 0 || node >= units_.size() || label_of(units_[node]) != label) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (node >= units_.size()) break;
    if ((unit & 0x100) == 0) continue;
    const std::uint32_t place = units_[node] & ~kValue;
    if (place < texts_.size() && !visit(Match{i + 1, std::string_view(texts_.data() + place)})) break;
  }
}

Charsmap::Match Charsmap::find(std::string_view text) const {
  Match best;
  walk(text, [&](const Match& match) {
    best = match;
    return true;
  });
  return best;
}

std::optional<std::string_view> Charsmap::first(std::string_view text) const {
  std::optional<std::string_view> found;
  walk(text, [&](const Match& match) {
    found = match.text;
    return false;
  });
  return found;
}

}  // namespace kvasir::text
