// K-EXAONE: single spaces between words are part of them, so merges reach across words.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"exaone-moe"};
extern const Pretokenizer exaone_moe;
const Pretokenizer exaone_moe{
    .serves = kNames,
    .split = split_words<Words{.letters = Words::Letters::kSpaced, .digits = 1, .tail = Words::Tail::kOne}>,
};

}  // namespace kvasir::text::entries::pretokenizers
