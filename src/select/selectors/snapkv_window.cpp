// SnapKV (Li et al. 2024, arXiv:2404.14469) as it was published: the last tokens of the prompt, the question, vote for
// blocks by the attention mass that each of their heads gives, pooled with neighbours, and the answer reads what they
// chose. Unlike there nothing is dropped, so that the next turn can choose anew. Queries are not stored: of a prompt
// that is restored at least these tokens are computed (Rules::exact_prompt).
#include "select/selector.hpp"

namespace kvasir::select::selectors_snapkv_window {

const Selector entry = {.summary = "what the prompt's last 32 queries look at, for the whole answer (SnapKV)",
                        .preset = "snapkv:window=32"};

}  // namespace kvasir::select::selectors_snapkv_window
