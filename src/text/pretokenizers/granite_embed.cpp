// GPT-4o's pattern under a vocabulary whose words are taken whole.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"granite-embed-multi-97m"};
extern const Pretokenizer granite_embed;
const Pretokenizer granite_embed{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kBehind,
                               .letters = Words::Letters::kCased,
                               .tail = Words::Tail::kNewlinesAndSlashes}>,
    .whole_words = true,
};

}  // namespace kvasir::text::entries::pretokenizers
