// Kimi K2: runs of Chinese characters apart, the rest as GPT-4o.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"kimi-k2"};
extern const Pretokenizer kimi_k2;
const Pretokenizer kimi_k2{
    .serves = kNames,
    .split = split_words<Words{
        .contraction = Words::Contraction::kBehind, .letters = Words::Letters::kCased, .han_apart = true}>,
};

}  // namespace kvasir::text::entries::pretokenizers
