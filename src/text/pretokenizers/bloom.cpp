// BLOOM: words with the space in front of them; stops, commas and the other white space lie between.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"bloom", "poro-chat", "gpt3-finnish"};
extern const Pretokenizer bloom;
const Pretokenizer bloom{.serves = kNames, .split = split_bloom};

}  // namespace kvasir::text::entries::pretokenizers
