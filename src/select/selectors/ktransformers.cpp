// KTransformers' long-context mode with the values of its tutorial: 96 blocks of 128 by one weighty key each, one
// choice for all heads, 4096 local tokens.
#include "select/selector.hpp"

namespace kvasir::select::selectors_ktransformers {

const Selector entry = {.summary = "KTransformers' values: dynamic, 96 blocks of 128 for all heads, 4096 local tokens",
                        .preset = "dynamic:block=128:anchors=1:budget=16512:local=4096:heads=shared:vote=sum"};

}  // namespace kvasir::select::selectors_ktransformers
