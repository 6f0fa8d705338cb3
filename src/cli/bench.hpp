// The subcommands of `kvasir bench`.
#pragma once

#include "cli/command.hpp"

namespace kvasir::cli {

// Registers its options on `app` and returns what to run, as Command::setup does.
Action setup_bench_replay(CLI::App& app);

}  // namespace kvasir::cli
