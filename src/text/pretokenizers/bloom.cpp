// BLOOM: words with the space in front of them; stops, commas and the other white space lie between.
#include "text/split.hpp"

namespace kvasir::text::pretokenizers_bloom {

constexpr std::string_view kNames[] = {"bloom", "poro-chat", "gpt3-finnish"};
const Pretokenizer entry{.serves = kNames, .split = split_bloom};

}  // namespace kvasir::text::pretokenizers_bloom
