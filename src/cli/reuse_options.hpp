// What the commands that keep what they compute share: store/reuse_options.hpp, and the end of such a command.
#pragma once

#include <string>

#include "store/reuse_options.hpp"

namespace kvasir::store {
class Library;
}

namespace kvasir::cli {

using store::open_tiers;
using store::reuse_table;
using store::ReuseOptions;
using store::weights_folder;

// All that is kept is written; what could not be is said on standard error.
void write_kept(store::Library& library);

// run::Engine::Needs::weights_note on standard error.
void print_weights_note(const std::string& note);

}  // namespace kvasir::cli
