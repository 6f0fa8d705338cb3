// Contract of an entry in cli/commands: one subcommand of `kvasir`, called by its file's stem.
#pragma once

#include <functional>
#include <span>

#include "base/registry.hpp"

namespace kvasir::cli {

class Flags;  // cli/flags.hpp

// What a command does once its arguments are parsed; returns the exit status (kSuccess or kFailure). It may throw: the
// front end (cli/front.hpp) prints the message and chooses the status.
using Action = std::function<int()>;

struct Command {
  const char* summary;  // one line for `kvasir --help`, lower case, no full stop

  // Registers the command's options on its own subcommand and returns what to run. Called for the chosen command
  // only, before parsing; the parsed values must be owned by the returned function (a shared_ptr), since `flags` keeps
  // references to them. REQUIRES: no work here that can be slow or fail.
  Action (*setup)(Flags& flags);

  bool hidden = false;  // not in `kvasir --help`: for scripts and packages
};

// src/cli/commands, by the build.
std::span<const Entry<Command>> commands();

// Exit statuses of the program.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;   // the run failed: file system, memory, machine
inline constexpr int kBadUsage = 2;  // bad options, or a file or text that is not what it should be

}  // namespace kvasir::cli
