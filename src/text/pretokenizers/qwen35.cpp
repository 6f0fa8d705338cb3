// Qwen 3.5: marks belong to words.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"qwen35"};
extern const Pretokenizer qwen35;
const Pretokenizer qwen35{
    .serves = kNames,
    .split = split_words<Words{.letters = Words::Letters::kMarked, .digits = 1}>,
    .nfc = true,
};

}  // namespace kvasir::text::entries::pretokenizers
