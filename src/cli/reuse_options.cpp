#include "cli/reuse_options.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "store/library.hpp"

namespace kvasir::cli {

void write_kept(store::Library& library) {
  for (const auto& tier : library.tiers()) {
    const store::Status written = tier->flush();
    const store::Stats stats = tier->stats();
    if (!written.ok()) fmt::print(stderr, "kvasir: {}: not all was kept: {}\n", tier->name(), written.why);
    if (stats.dropped + stats.refused > 0)
      fmt::print(stderr, "kvasir: {}: {} records were not kept\n", tier->name(), stats.dropped + stats.refused);
  }
}

void print_weights_note(const std::string& note) { fmt::print(stderr, "kvasir: {}\n", note); }

}  // namespace kvasir::cli
