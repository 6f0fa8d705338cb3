// SnapKV (Li et al. 2024, arXiv:2404.14469) as a choice: the prompt's blocks that the answer's first query looks at,
// pooled with their neighbours, stay readable; the others are not read again. SnapKV asks the prompt's last queries and
// drops the rest. Here the first generated token asks, because a prompt that was restored has no queries, and nothing
// is dropped, so that the next turn can choose anew.
#include "select/selector.hpp"

namespace kvasir::select::selectors_snapkv {

const Selector entry = {.summary = "what the answer's first query looks at, for the whole answer (SnapKV)",
                        .preset = "all:preselect=budget"};

}  // namespace kvasir::select::selectors_snapkv
