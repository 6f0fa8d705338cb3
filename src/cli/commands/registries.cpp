// kvasir registries [--json]: what this build can read, run and sample with.
#include "cli/registries.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"

namespace kvasir::cli::commands_registries {
namespace {

int list_registries(bool json) {
  for (const Registry& r : registries()) {
    if (json)
      print_json_row({{"registry", r.folder}, {"entries", r.names}});
    else
      fmt::print("{:<20} {}\n", r.folder, fmt::join(r.names, " "));
  }
  return kSuccess;
}

Action setup(Flags& flags) {
  auto json = std::make_shared<bool>(false);
  flags.flag("--json", *json, "one object per registry");
  return [json] { return list_registries(*json); };
}

}  // namespace

const Command entry{"list the formats, codecs, architectures and commands of this build", setup};

}  // namespace kvasir::cli::commands_registries
