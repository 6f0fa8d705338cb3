// Twilight's rule (Lin et al. 2025, arXiv:2502.02770): not a number of blocks but the fewest with a share of the
// estimated mass, so that a head that looks at one place reads little and one that looks everywhere reads much. The
// budget bounds it.
#include "select/selector.hpp"

namespace kvasir::select::selectors_topp {

const Selector entry = {.summary = "spread, as few blocks as have 95 % of the estimated mass (top-p, Twilight)",
                        .preset = "spread:p=0.95:budget=8192"};

}  // namespace kvasir::select::selectors_topp
