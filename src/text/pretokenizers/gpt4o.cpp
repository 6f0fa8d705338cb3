// GPT-4o and gpt-oss (o200k), Llama 4: words end in front of capitals and with contractions.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
extern const Pretokenizer gpt4o;
const Pretokenizer gpt4o{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kBehind,
                               .letters = Words::Letters::kCased,
                               .tail = Words::Tail::kNewlinesAndSlashes}>,
};

}  // namespace kvasir::text::entries::pretokenizers
