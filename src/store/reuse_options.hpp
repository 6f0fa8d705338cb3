// Where what was computed is kept beyond a request: the options of `kvasir run`, `kvasir serve` and the library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "store/tier.hpp"

namespace kvasir::store {

struct ReuseOptions {
  std::string ram_cache = "1GiB";
  std::string cache_dir;
  std::string cache_size = "10GiB";
  std::vector<std::string> tiers;
};
const OptionTable<ReuseOptions>& reuse_table();

// Where packed weights are kept beside what was computed (run::Engine::Needs); "": nowhere.
std::string weights_folder(const ReuseOptions& options);

// The fastest first. Throws Error as open_tier.
std::vector<std::shared_ptr<Tier>> open_tiers(const ReuseOptions& options);

}  // namespace kvasir::store
