// A choice of the pages that a query attends to: copy to src/kv/selectors/NAME.cpp and rename `skeleton` to NAME.
// Contract: kv/selector.hpp.
#include "kv/selector.hpp"

namespace kvasir::kv::entries::selectors {

extern const Selector skeleton;
const Selector skeleton{.summary = "no sealed page: sinks and the raw tail only",
                        .select = [](const Selection& /*what*/, std::int32_t* /*pages*/) { return 0; }};

}  // namespace kvasir::kv::entries::selectors
