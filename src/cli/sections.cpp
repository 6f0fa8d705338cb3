#include "cli/sections.hpp"

#include <algorithm>

namespace kvasir::cli {

std::vector<std::string_view> split_sections(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> sections;
  std::size_t begin = 0;
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    if (text.substr(line, end - line) == separator) {
      // The line break before the separator belongs to it; none is there when the section has no line at all.
      sections.push_back(text.substr(begin, line > begin ? line - 1 - begin : 0));
      begin = std::min(end + 1, text.size());
    }
    line = end + 1;
  }
  if (begin < text.size()) sections.push_back(text.substr(begin));
  return sections;
}

}  // namespace kvasir::cli
