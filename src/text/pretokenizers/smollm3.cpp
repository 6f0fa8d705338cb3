// Llama 3's pattern and vocabulary without its BOS token.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"smollm3"};
extern const Pretokenizer smollm3;
const Pretokenizer smollm3{.serves = kNames, .split = split_words<Words{}>, .whole_words = true};

}  // namespace kvasir::text::entries::pretokenizers
