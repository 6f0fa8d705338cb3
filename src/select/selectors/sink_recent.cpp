// The first and the newest tokens alone, as StreamingLLM reads them (Xiao et al. 2023, arXiv:2309.17453). What other
// selectors gain over it is what choosing is worth.
#include "select/selector.hpp"

namespace kvasir::select::selectors_sink_recent {

const Selector entry = {.summary = "first and newest tokens alone (StreamingLLM)"};

}  // namespace kvasir::select::selectors_sink_recent
