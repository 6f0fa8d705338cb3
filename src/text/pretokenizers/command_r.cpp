// Every number character alone, then GPT-2's pattern, on composed characters.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_command_r {

constexpr std::string_view kNames[] = {"command-r"};
const Pretokenizer entry{.serves = kNames, .split = split_digits_gpt2, .nfc = true};

}  // namespace kvasir::text::pretokenizers_command_r
