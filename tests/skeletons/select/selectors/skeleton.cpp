// How blocks of keys are represented for choosing: copy to src/select/selectors/NAME.cpp and rename `skeleton` to NAME.
// Contract: select/selector.hpp.
#include "select/selector.hpp"

namespace kvasir::select::selectors_skeleton {

const Selector entry{.summary = "blocks by their first key",
                     .width = [](int d) { return d; },
                     .represent =
                         [](const BlockKeys& block, float* to) {
                           for (int c = 0; c < block.d; ++c) to[c] = block.channel(c)[block.begin];
                         }};

}  // namespace kvasir::select::selectors_skeleton
