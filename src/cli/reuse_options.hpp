// Where what was computed is kept beyond a request: options that `kvasir run` and `kvasir serve` share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "store/tier.hpp"

namespace kvasir::store {
class Library;
}

namespace kvasir::cli {

struct ReuseOptions {
  std::string ram_cache = "1GiB";
  std::string cache_dir;
  std::string cache_size = "10GiB";
  std::vector<std::string> tiers;
};
const OptionTable<ReuseOptions>& reuse_table();

// The fastest first. Throws Error as store::open_tier.
std::vector<std::shared_ptr<store::Tier>> open_tiers(const ReuseOptions& options);

// All that is kept is written; what could not be is said on standard error.
void write_kept(store::Library& library);

}  // namespace kvasir::cli
