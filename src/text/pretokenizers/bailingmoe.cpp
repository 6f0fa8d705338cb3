// Llama 3's pattern with single digits.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_bailingmoe {

constexpr std::string_view kNames[] = {"bailingmoe", "bailingmoe2", "llada-moe", "grok-2", "solar-open", "kormo"};
const Pretokenizer entry{.serves = kNames, .split = split_words<Words{.digits = 1}>};

}  // namespace kvasir::text::pretokenizers_bailingmoe
