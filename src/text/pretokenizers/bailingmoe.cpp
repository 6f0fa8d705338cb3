// Llama 3's pattern with single digits.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"bailingmoe", "bailingmoe2", "llada-moe", "grok-2", "solar-open", "kormo"};
extern const Pretokenizer bailingmoe;
const Pretokenizer bailingmoe{.serves = kNames, .split = split_words<Words{.digits = 1}>};

}  // namespace kvasir::text::entries::pretokenizers
