// kvasir ls: the models that `kvasir pull` downloaded.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "client/hub.hpp"

namespace kvasir::cli::commands_ls {
namespace {

std::string state_of(const client::LocalModel& m) {
  if (m.partly) return "not whole: kvasir pull goes on";
  return m.missing_parts > 0 ? fmt::format("{} parts are missing", m.missing_parts) : m.path;
}

int ls_command(bool json) {
  const std::string folder = client::hub_options().folder;
  const auto models = client::list_models(folder);
  std::size_t width = 0;
  for (const auto& m : models) width = std::max(width, m.name.size());
  for (const client::LocalModel& m : models) {
    if (json)
      print_json_row({{"name", m.name}, {"bytes", m.bytes}, {"whole", m.whole()}, {"path", m.path}});
    else
      fmt::print("{:<{}}  {:>9}  {}\n", m.name, width, human_bytes(m.bytes), state_of(m));
  }
  if (models.empty() && !json)
    fmt::print(stderr, "no models in {}; kvasir pull hf:OWNER/REPO[:QUANT] downloads one\n", folder);
  return kSuccess;
}

Action setup(Flags& flags) {
  const auto json = std::make_shared<bool>(false);
  flags.flag("--json", *json, "one object per model");
  return [json] { return ls_command(*json); };
}

}  // namespace

const Command entry{"list the downloaded models", setup};

}  // namespace kvasir::cli::commands_ls
