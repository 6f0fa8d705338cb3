// Llama 3's pattern with single digits and without contractions: Turkish suffixes stay whole.
#include "text/words.hpp"

namespace kvasir::text::pretokenizers_ufakzeka {

constexpr std::string_view kNames[] = {"ufakzeka"};
const Pretokenizer entry{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kNone, .digits = 1}>,
};

}  // namespace kvasir::text::pretokenizers_ufakzeka
