// BLOOM's pattern, then every number alone.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {
namespace {

void split(std::string_view text, Emit emit) {
  split_bloom(text, [&](std::string_view part) { isolate(part, one_number, emit); });
}

constexpr std::string_view kNames[] = {"viking"};

}  // namespace

extern const Pretokenizer viking;
const Pretokenizer viking{.serves = kNames, .split = split};

}  // namespace kvasir::text::entries::pretokenizers
