// Seed-Coder: Llama 3's pattern with single digits; newlines never join signs.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"seed-coder"};
extern const Pretokenizer seed_coder;
const Pretokenizer seed_coder{
    .serves = kNames,
    .split = split_words<Words{.digits = 1, .tail = Words::Tail::kNone}>,
};

}  // namespace kvasir::text::entries::pretokenizers
