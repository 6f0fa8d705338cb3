// kvasir man: the manual page. Packages install what this prints.
#include <cstdio>
#include <string>

#include "cli/command.hpp"
#include "cli/describe.hpp"
#include "cli/flags.hpp"
#include "cli/version.hpp"

namespace kvasir::cli::commands_man {
namespace {

Action setup_man(Flags& /*flags*/) {
  return [] {
    const std::string page = manual_page(describe(commands()), std::string(version()));
    std::fwrite(page.data(), 1, page.size(), stdout);
    return kSuccess;
  };
}

}  // namespace

const Command entry{"print the manual page", setup_man, true};

}  // namespace kvasir::cli::commands_man
