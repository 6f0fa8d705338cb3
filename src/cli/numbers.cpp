#include "cli/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/options.hpp"

namespace kvasir::cli {

std::vector<std::int64_t> parse_numbers(const std::string& text, std::int64_t low, std::int64_t high,
                                        const std::string& option) {
  const auto bad = [&] {
    return Error(Code::kBadInput,
                 fmt::format("is '{}', expected numbers from {} to {} separated by commas", text, low, high), option);
  };
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int64_t number = 0;
    if (!parse_count(std::string_view(text).substr(begin, end - begin), &number) || number < low || number > high)
      throw bad();
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

}  // namespace kvasir::cli
