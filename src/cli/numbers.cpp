#include "cli/numbers.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace kvasir::cli {

std::vector<std::int64_t> parse_numbers(const std::string& text, std::int64_t low, std::int64_t high,
                                        const std::string& option) {
  const auto bad = [&] {
    return Error(Code::kBadInput,
                 fmt::format("is '{}', expected numbers from {} to {} separated by commas", text, low, high), option);
  };
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0;; ++i) {
    std::size_t end = i;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == i || end - i > 12) throw bad();
    numbers.push_back(std::stoll(text.substr(i, end - i)));
    if (numbers.back() < low || numbers.back() > high) throw bad();
    i = end;
    if (end == text.size()) return numbers;
    if (text[end] != ',') throw bad();
  }
}

}  // namespace kvasir::cli
