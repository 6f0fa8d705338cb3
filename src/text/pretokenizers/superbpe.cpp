// SuperBPE: digits by threes from the right; merges may reach across words.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_superbpe {

constexpr std::string_view kNames[] = {"superbpe"};
const Pretokenizer entry{.serves = kNames, .split = split_thousands};

}  // namespace kvasir::text::pretokenizers_superbpe
