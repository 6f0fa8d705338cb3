// Every number character alone, then GPT-2's pattern, on composed characters.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"command-r"};
extern const Pretokenizer command_r;
const Pretokenizer command_r{.serves = kNames, .split = split_digits_gpt2, .nfc = true};

}  // namespace kvasir::text::entries::pretokenizers
