// Any bytes as a table of normalisations: it is refused or what it finds lies inside the text and the table.
//
// Input: one byte for the length of the text, the text, the table.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "text/charsmap.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || data[0] >= size) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, data[0]);
  const std::vector<std::int64_t> table(data + 1 + data[0], data + size);
  try {
    const kvasir::text::Charsmap map(table, "fuzz");
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto match = map.find(text.substr(i));
      if (match.size > text.size() - i || match.text.size() > table.size()) std::abort();
    }
  } catch (const kvasir::Error& e) {
    if (e.context() != "fuzz") std::abort();
  }
  return 0;
}
