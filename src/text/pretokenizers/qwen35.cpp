// Qwen 3.5: marks belong to words.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_qwen35 {

constexpr std::string_view kNames[] = {"qwen35"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.letters = Words::Letters::kMarked, .digits = 1}>,
    .nfc = true,
};

}  // namespace kvasir::text::pretokenizers_qwen35
