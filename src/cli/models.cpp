#include "cli/models.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "cli/interrupt.hpp"
#include "cli/terminal.hpp"
#include "client/hub.hpp"

namespace kvasir::cli {

std::string pull_with_bar(const std::string& model) {
  const client::HubName name = client::parse_hub_name(model);
  Interrupt interrupt;
  std::optional<ProgressBar> bar;
  std::string shown;
  std::string path = client::pull_model(name, client::hub_options(),
                                        [&](const std::string& what, std::uint64_t done, std::uint64_t total) {
                                          if (what != shown) {
                                            bar.reset();
                                            bar.emplace(what);
                                            shown = what;
                                          }
                                          bar->update(done, total);
                                          return !interrupt.requested().load(std::memory_order_relaxed);
                                        });
  return path;
}

std::string local_model(const std::string& model) {
  if (!client::is_hub_name(model)) return model;
  const client::HubName name = client::parse_hub_name(model);
  if (auto path = client::find_model(name, client::hub_options().folder)) return *path;
  fmt::print(stderr, "{} is not here yet and is downloaded\n", name.text());
  return pull_with_bar(model);
}

void settle_drafts(run::DraftOptions& options) {
  constexpr std::string_view kModel = "model:";
  for (std::string& spec : options.draft)
    if (spec.starts_with(kModel))
      spec.replace(kModel.size(), std::string::npos, local_model(spec.substr(kModel.size())));
}

}  // namespace kvasir::cli
