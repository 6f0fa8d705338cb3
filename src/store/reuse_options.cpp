#include "store/reuse_options.hpp"

#include "store/open.hpp"

namespace kvasir::store {

const OptionTable<ReuseOptions>& reuse_table() {
  using O = ReuseOptions;
  static const OptionTable<O> t{
      "reuse",
      {{"ram_cache",
        &O::ram_cache,
        {.help = "memory for what earlier requests computed, such as 4GiB; 0 for none", .placeholder = "SIZE"}},
       {"cache_dir", &O::cache_dir, {.help = "keep it in this folder too, across restarts", .placeholder = "FOLDER"}},
       {"cache_size", &O::cache_size, {.help = "most that the folder may hold", .placeholder = "SIZE"}},
       {"tier",
        &O::tiers,
        {.help = "a further tier, such as redis:HOST:PORT; may be given more than once", .placeholder = "SPEC"}}}};
  return t;
}

std::string weights_folder(const ReuseOptions& o) { return o.cache_dir.empty() ? "" : o.cache_dir + "/weights"; }

std::vector<std::shared_ptr<Tier>> open_tiers(const ReuseOptions& o) {
  std::vector<std::shared_ptr<Tier>> tiers;
  if (o.ram_cache != "0") tiers.push_back(open_tier("ram:?size=" + o.ram_cache));
  if (!o.cache_dir.empty()) tiers.push_back(open_tier("lmdb:" + o.cache_dir + "?size=" + o.cache_size));
  for (const std::string& spec : o.tiers) tiers.push_back(open_tier(spec));
  return tiers;
}

}  // namespace kvasir::store
