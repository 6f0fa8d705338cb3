// Llama 3's pattern under vocabularies whose merges always decide.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"smaug-bpe", "dbrx"};
extern const Pretokenizer smaug;
const Pretokenizer smaug{
    .serves = kNames,
    .split = [](std::string_view text, Emit emit) { split_llama3(text, 3, emit); },
};

}  // namespace kvasir::text::entries::pretokenizers
