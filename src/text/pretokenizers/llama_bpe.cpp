// Llama 3: digits in groups of three, words that are tokens taken whole.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_llama_bpe {

constexpr std::string_view kNames[] = {"llama-bpe", "llama3",   "llama-v3", "falcon3",     "falcon-h1",
                                       "pixtral",   "midm-2.0", "lfm2",     "jina-v5-nano"};
const Pretokenizer entry{.serves = kNames, .split = split_words<Words{}>, .whole_words = true, .add_bos = true};

}  // namespace kvasir::text::pretokenizers_llama_bpe
