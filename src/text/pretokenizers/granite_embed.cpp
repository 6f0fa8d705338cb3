// GPT-4o's pattern under a vocabulary whose words are taken whole.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_granite_embed {

constexpr std::string_view kNames[] = {"granite-embed-multi-97m"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kBehind,
                               .letters = Words::Letters::kCased,
                               .behind = Words::Behind::kNewlinesAndSlashes}>,
    .whole_words = true,
};

}  // namespace kvasir::text::pretokenizers_granite_embed
