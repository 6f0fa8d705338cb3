// What the commands that keep what they compute share: store/reuse_options.hpp, and the end of such a command.
#pragma once

#include "store/reuse_options.hpp"

namespace kvasir::store {
class Library;
}

namespace kvasir::cli {

using store::open_tiers;
using store::reuse_table;
using store::ReuseOptions;

// All that is kept is written; what could not be is said on standard error.
void write_kept(store::Library& library);

}  // namespace kvasir::cli
