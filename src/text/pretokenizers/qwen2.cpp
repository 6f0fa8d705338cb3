// Llama 3's pattern with single digits, on composed characters.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"qwen2", "deepseek-r1-qwen", "megrez", "f2llmv2", "stablelm2", "hunyuan"};
extern const Pretokenizer qwen2;
const Pretokenizer qwen2{.serves = kNames, .split = split_words<Words{.digits = 1}>, .nfc = true};

}  // namespace kvasir::text::entries::pretokenizers
