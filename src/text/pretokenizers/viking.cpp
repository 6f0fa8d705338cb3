// BLOOM's pattern, then every number alone.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_viking {
namespace {

void split(std::string_view text, Emit emit) {
  split_bloom(text, [&](std::string_view part) { isolate(part, one_number, emit); });
}

constexpr std::string_view kNames[] = {"viking"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_viking
