// The subcommands of `kvasir eval`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace kvasir::cli {

// Each registers its options on `flags` and returns what to run, as Command::setup does.
Action setup_eval_ppl(Flags& flags);
Action setup_eval_codec(Flags& flags);
Action setup_eval_recall(Flags& flags);
Action setup_eval_answers(Flags& flags);
Action setup_eval_tasks(Flags& flags);
Action setup_eval_blend(Flags& flags);
Action setup_eval_mass(Flags& flags);

// Rows of cells on standard output in columns, the first aligned to the left; the first row is the head.
void print_table(const std::vector<std::vector<std::string>>& table);

}  // namespace kvasir::cli
