// Llama 3: digits in groups of three, words that are tokens taken whole.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral"};
extern const Pretokenizer llama_bpe;
const Pretokenizer llama_bpe{
    .serves = kNames,
    .split = [](std::string_view text, Emit emit) { split_llama3(text, 3, emit); },
    .whole_words = true,
    .add_bos = true,
};

}  // namespace kvasir::text::entries::pretokenizers
