#include "serve/families/billing_line.hpp"

#include <algorithm>
#include <string_view>

namespace kvasir::serve {
namespace {

constexpr std::string_view kName = "x-anthropic-billing-header:";
constexpr std::string_view kHex = "0123456789abcdefABCDEF";

void zero(std::string& text, std::size_t begin, std::size_t end) {
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end), '0');
}

// The value of `key` in text[begin, end): where it begins and ends; begin == end: there is none.
struct Range {
  std::size_t begin, end;
};
Range value_of(std::string_view text, std::string_view key, std::size_t begin, std::size_t end) {
  const std::size_t at = text.substr(0, end).find(key, begin);
  if (at == text.npos) return {0, 0};
  const std::size_t first = at + key.size();
  return {first, std::min(text.find_first_of("; \t", first), end)};
}

}  // namespace

bool settle_billing_line(std::string& system) {
  if (!system.starts_with(kName)) return false;
  const std::size_t end = std::min(system.find('\n'), system.size());
  const Range hash = value_of(system, "cch=", kName.size(), end);
  zero(system, hash.begin, hash.end);
  // The last part of the version is a hash of three digits behind three numbers.
  const Range version = value_of(system, "cc_version=", kName.size(), end);
  const std::string_view text = std::string_view(system).substr(version.begin, version.end - version.begin);
  const std::size_t dot = text.rfind('.');
  if (dot != text.npos && std::count(text.begin(), text.end(), '.') >= 3 &&
      text.substr(dot + 1).find_first_not_of(kHex) == text.npos)
    zero(system, version.begin + dot + 1, version.end);
  return true;
}

}  // namespace kvasir::serve
