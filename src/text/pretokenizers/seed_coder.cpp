// Seed-Coder: Llama 3's pattern with single digits; newlines never join signs.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_seed_coder {

constexpr std::string_view kNames[] = {"seed-coder"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.digits = 1, .behind = Words::Behind::kNone}>,
};

}  // namespace kvasir::text::pretokenizers_seed_coder
