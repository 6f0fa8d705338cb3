#include "select/selector.hpp"

namespace kvasir::select::selectors_all {

const Selector entry = {.summary = "every page: dense attention", .dense = true};

}  // namespace kvasir::select::selectors_all
