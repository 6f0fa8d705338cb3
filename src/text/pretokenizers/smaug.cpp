// Llama 3's pattern under vocabularies whose merges always decide.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"};
extern const Pretokenizer smaug;
const Pretokenizer smaug{.serves = kNames, .split = split_words<Words{}>};

}  // namespace kvasir::text::entries::pretokenizers
