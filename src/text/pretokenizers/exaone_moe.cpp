// K-EXAONE: single spaces between words are part of them, so merges reach across words.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_exaone_moe {

constexpr std::string_view kNames[] = {"exaone-moe"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.letters = Words::Letters::kSpaced, .digits = 1, .behind = Words::Behind::kOne}>,
};

}  // namespace kvasir::text::pretokenizers_exaone_moe
