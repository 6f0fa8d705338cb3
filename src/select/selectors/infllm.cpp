// InfLLM's values (Xiao et al. 2024, arXiv:2402.04617): blocks of 128, four representative tokens, 96 blocks for all
// heads, 4096 local tokens.
#include "select/selector.hpp"

namespace kvasir::select::selectors_infllm {

const Selector entry = {
    .summary = "InfLLM's values: dynamic with four keys, 96 blocks of 128 for all heads, 4096 local tokens",
    .preset = "dynamic:block=128:anchors=4:budget=16512:local=4096:heads=shared:vote=sum"};

}  // namespace kvasir::select::selectors_infllm
