// Commands and their options as data, asked of the commands themselves: completions and the manual page are made of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace kvasir::cli {

struct OptionText {
  std::vector<std::string> names;  // "-n", "--n"; one without hyphens stands alone on the command line
  std::string value;               // how its value is called: "FILE"; empty: it has none
  std::string help;                // with type, range, unit and default
  std::vector<std::string> choices;
  std::string group;  // title of its table; empty: in none

  bool positional() const { return !names.front().starts_with('-'); }
};

struct CommandText {
  std::string name;
  std::string summary;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;  // subcommands
};

// All that are not hidden, in their order.
std::vector<CommandText> describe(std::span<const Entry<Command>> commands);

// A script for "bash", "zsh" or "fish" that completes commands, options and values. REQUIRES: one of these.
std::string completion_script(std::span<const CommandText> commands, const std::string& shell);
// kvasir(1) in man's macros.
std::string manual_page(std::span<const CommandText> commands, const std::string& version);

}  // namespace kvasir::cli
