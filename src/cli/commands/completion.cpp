// kvasir completion bash|zsh|fish: a script for the shell. Packages install what this prints.
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/describe.hpp"
#include "cli/flags.hpp"

namespace kvasir::cli::commands_completion {
namespace {

int print_completion(const std::string& shell) {
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    throw Error(Code::kBadInput, "is '" + shell + "', expected bash, zsh or fish", "SHELL");
  const std::string script = completion_script(describe(commands()), shell);
  std::fwrite(script.data(), 1, script.size(), stdout);
  return kSuccess;
}

Action setup_completion(Flags& flags) {
  auto shell = std::make_shared<std::string>();
  flags.value("SHELL", *shell, "bash, zsh or fish", {.placeholder = "SHELL", .required = true});
  return [shell] { return print_completion(*shell); };
}

}  // namespace

const Command entry{"print a script that completes command lines in bash, zsh or fish", setup_completion, true};

}  // namespace kvasir::cli::commands_completion
