// Mistral's Tekken: words end in front of capitals, single digits, words that are tokens taken whole.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_tekken {

constexpr std::string_view kNames[] = {"tekken"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kNone,
                               .letters = Words::Letters::kCased,
                               .digits = 1,
                               .behind = Words::Behind::kNewlinesAndSlashes}>,
    .whole_words = true,
    .add_bos = true,
};

}  // namespace kvasir::text::pretokenizers_tekken
