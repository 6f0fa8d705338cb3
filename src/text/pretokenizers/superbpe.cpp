// SuperBPE: digits by threes from the right; merges may reach across words.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"superbpe"};
extern const Pretokenizer superbpe;
const Pretokenizer superbpe{.serves = kNames, .split = split_thousands};

}  // namespace kvasir::text::entries::pretokenizers
