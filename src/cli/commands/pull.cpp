// kvasir pull hf:OWNER/REPO[:QUANT]: downloads a model, for `-m hf:OWNER/REPO[:QUANT]`.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/models.hpp"

namespace kvasir::cli::commands_pull {
namespace {

Action setup(Flags& flags) {
  const auto name = std::make_shared<std::string>();
  flags.value("MODEL", *name, "hf:OWNER/REPO, hf:OWNER/REPO:QUANT or hf:OWNER/REPO/FILE.gguf",
              {.placeholder = "MODEL", .required = true});
  return [name] {
    fmt::print("{}\n", pull_with_bar(*name));
    return kSuccess;
  };
}

}  // namespace

const Command entry{"download a model by its name and print where it is", setup};

}  // namespace kvasir::cli::commands_pull
