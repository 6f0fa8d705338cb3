#include "text/pretokenizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"

namespace kvasir::text {

const Pretokenizer& pretokenizer_for(std::string_view name, const std::string& context) {
  std::vector<std::string_view> known;
  for (const auto& entry : pretokenizers()) {
    for (const auto& served : entry.value->serves) {
      if (served == name) return *entry.value;
      known.push_back(served);
    }
  }
  std::sort(known.begin(), known.end());
  throw Error(Code::kUnsupported,
              fmt::format("unknown pre-tokenizer '{}', expected one of {}", name, fmt::join(known, ", ")), context);
}

}  // namespace kvasir::text
