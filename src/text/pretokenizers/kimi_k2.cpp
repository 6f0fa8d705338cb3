// Kimi K2: runs of Chinese characters apart, the rest as GPT-4o.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_kimi_k2 {

constexpr std::string_view kNames[] = {"kimi-k2"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{
        .contraction = Words::Contraction::kBehind, .letters = Words::Letters::kCased, .han_apart = true}>,
};

}  // namespace kvasir::text::pretokenizers_kimi_k2
