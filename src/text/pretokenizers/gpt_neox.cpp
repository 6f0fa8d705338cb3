// GPT-2's pattern on composed characters.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_gpt_neox {

constexpr std::string_view kNames[] = {"olmo", "mpt", "gpt-neox"};
const Pretokenizer entry{.serves = kNames, .split = split_gpt2, .nfc = true};

}  // namespace kvasir::text::pretokenizers_gpt_neox
