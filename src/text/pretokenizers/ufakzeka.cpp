// Llama 3's pattern with single digits and without contractions: Turkish suffixes stay whole.
#include "text/words.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"ufakzeka"};
extern const Pretokenizer ufakzeka;
const Pretokenizer ufakzeka{
    .serves = kNames,
    .split = split_words<Words{.contraction = Words::Contraction::kNone, .digits = 1}>,
};

}  // namespace kvasir::text::entries::pretokenizers
