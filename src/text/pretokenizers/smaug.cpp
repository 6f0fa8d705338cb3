// Llama 3's pattern under vocabularies whose merges always decide.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_smaug {

constexpr std::string_view kNames[] = {"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"};
const Pretokenizer entry{.serves = kNames, .split = split_words<Words{}>};

}  // namespace kvasir::text::pretokenizers_smaug
