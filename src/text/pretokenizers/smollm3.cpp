// Llama 3's pattern and vocabulary without its BOS token.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_smollm3 {

constexpr std::string_view kNames[] = {"smollm3"};
const Pretokenizer entry{.serves = kNames, .split = split_words<Words{}>, .whole_words = true};

}  // namespace kvasir::text::pretokenizers_smollm3
