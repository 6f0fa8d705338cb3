// The program around the commands: finds the command, parses its arguments, turns errors into messages and statuses.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace kvasir::cli {

// Runs `kvasir arguments...` (without the program's own name) and returns the exit status. Output on stdout; every
// message on stderr as "kvasir: context: message". Throws nothing.
int run_command_line(const std::vector<std::string>& arguments);

// The same with another list of commands, for tests.
int run_command_line(const std::vector<std::string>& arguments, std::span<const Entry<Command>> commands);

}  // namespace kvasir::cli
