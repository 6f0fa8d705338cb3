#include "select/selector.hpp"

namespace kvasir::kv::selectors_all {

const Selector entry = {.summary = "every page: dense attention", .dense = true};

}  // namespace kvasir::kv::selectors_all
