// The blocks that hold the most of dense attention's mass: every packed key is read to choose, and values of what is
// chosen alone. It is exact top-k attention by blocks (Gupta et al. 2021, arXiv:2106.06899). No representative of a
// block can find more, so it also tells whether a loss is an estimate's or the budget's.
#include "select/selector.hpp"

namespace kvasir::select::selectors_keys {

const Selector entry = {.summary = "blocks by their attention mass itself: reads every key, and few values",
                        .exact = true};

}  // namespace kvasir::select::selectors_keys
