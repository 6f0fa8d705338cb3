#include "kv/selector.hpp"

namespace kvasir::kv::entries::selectors {

extern const Selector all;
const Selector all = {.summary = "every page: dense attention", .dense = true};

}  // namespace kvasir::kv::entries::selectors
