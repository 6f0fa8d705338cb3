// Every number character alone, then GPT-2's pattern on what lies between.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_smollm {

constexpr std::string_view kNames[] = {"smollm", "starcoder", "refact", "codeshell", "exaone", "mellum2", "minerva-7b"};
const Pretokenizer entry{.serves = kNames, .split = split_digits_gpt2};

}  // namespace kvasir::text::pretokenizers_smollm
