// Llama 3's pattern with single digits, on composed characters.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_qwen2 {

constexpr std::string_view kNames[] = {"qwen2", "deepseek-r1-qwen", "megrez", "f2llmv2", "stablelm2", "hunyuan"};
const Pretokenizer entry{.serves = kNames, .split = split_words<Words{.digits = 1}>, .nfc = true};

}  // namespace kvasir::text::pretokenizers_qwen2
