// GPT-4o and gpt-oss (o200k), Llama 4: words end in front of capitals and with contractions.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_gpt4o {

constexpr std::string_view kNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kBehind,
                               .letters = Words::Letters::kCased,
                               .behind = Words::Behind::kNewlinesAndSlashes}>,
};

}  // namespace kvasir::text::pretokenizers_gpt4o
