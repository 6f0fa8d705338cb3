// GPT-2's pattern on composed characters.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"olmo", "mpt", "gpt-neox"};
extern const Pretokenizer gpt_neox;
const Pretokenizer gpt_neox{.serves = kNames, .split = split_gpt2, .nfc = true};

}  // namespace kvasir::text::entries::pretokenizers
