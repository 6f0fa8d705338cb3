// kvasir cache: what is stored between requests, looked at from outside; beside a running server, too.
#include "cli/cache.hpp"

#include <vector>

#include "cli/command.hpp"
#include "cli/flags.hpp"

namespace kvasir::cli::commands_cache {
namespace {

struct Subcommand {
  const char* name;
  const char* summary;
  Action (*setup)(Flags& flags);
};
constexpr Subcommand kSubcommands[] = {
    {"ls", "the records", setup_cache_ls},
    {"stats", "totals by kind and fingerprint, and how full it is", setup_cache_stats},
    {"verify", "read every record and compare checksums, keys and parents; status 1 when something is damaged",
     setup_cache_verify},
    {"clear", "remove records: all, of one fingerprint, or those that were not used for long", setup_cache_clear},
    {"export", "write records to a file", setup_cache_export},
    {"import", "read records from such a file", setup_cache_import},
    {"explain", "where two prompts part, and how much of the one the other can reuse", setup_cache_explain}};

Action setup(Flags& flags) {
  flags.require_command();
  std::vector<std::pair<Flags*, Action>> subcommands;
  for (const Subcommand& p : kSubcommands) {
    Flags& part = flags.command(p.name, p.summary);
    subcommands.emplace_back(&part, p.setup(part));
  }
  return [subcommands] {
    for (const auto& [part, action] : subcommands)
      if (part->chosen()) return action();
    return kBadUsage;  // not reached: one is required
  };
}

}  // namespace

const Command entry{"look at, check, move and clear what is stored between requests", setup};

}  // namespace kvasir::cli::commands_cache
