#include "text/pretokenizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace kvasir::text {

const Pretokenizer& pretokenizer_for(std::string_view name, const std::string& context) {
  std::vector<std::string> known;
  for (const auto& entry : pretokenizers()) {
    for (const auto& served : entry.value->serves) {
      if (served == name) return *entry.value;
      known.emplace_back(served);
    }
  }
  std::sort(known.begin(), known.end());
  throw Error(Code::kUnsupported,
              fmt::format("unknown pre-tokenizer '{}'{}, expected one of {}", name, did_you_mean(name, known),
                          fmt::join(known, ", ")),
              context);
}

}  // namespace kvasir::text
