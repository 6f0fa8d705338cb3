// No number to choose: as few blocks as have 97 % of the estimated mass, from 8192 tokens on, at most a quarter of the
// context. So every head of every layer has a budget of its own. Every 32 positions the true mass is measured. The
// layer then chooses more or less of the estimated mass, until choices hold 95 % of the true one, and where a choice
// holds less than 90 % that step reads everything.
#include "select/selector.hpp"

namespace kvasir::select::selectors_entry_auto {

const Selector entry = {.summary = "top-p for contexts from 8192 tokens on, by layer as measured, dense below 90 %",
                        .preset = "spread:p=0.97:budget=25%:from=8192:meter=32:aim=0.95:floor=0.9"};

}  // namespace kvasir::select::selectors_entry_auto
