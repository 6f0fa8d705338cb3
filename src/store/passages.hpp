// Texts at other places: the chunks of what was stored are found by their content at any place of another text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/cache.hpp"
#include "store/chain.hpp"
#include "store/content_index.hpp"
#include "store/tier.hpp"

namespace kvasir::store {

// What is known of a prompt at other places: runs of tokens, and the stored pages that they lie in.
struct Moved {
  struct Run {
    std::int64_t begin = 0, end = 0;  // tokens of the prompt
    std::int64_t made_at = 0;         // position of the first one where it was computed
    std::vector<std::size_t> pages;   // into `pages`: those from made_at / kPageTokens on
  };
  std::vector<Run> runs;  // ascending
  std::vector<Found> pages;
  std::int64_t lost = 0;  // tokens that are known at another place, but whose chunks are gone
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Any thread may call it.
class Passages {
 public:
  // `cache` must outlive this; it is asked for sizes.
  Passages(const kv::Cache& cache, const Fingerprint& fingerprint, std::span<const std::shared_ptr<Tier>> tiers);

  // Makes the chunks of a text known by their content. `borders`: ascending numbers of tokens at which texts begin and
  // end.
  void remember(Chain& chain, std::string_view tenant, std::span<const std::int32_t> ids, std::int64_t sealed_tokens,
                std::span<const std::int64_t> borders);
  // What earlier processes stored in tiers that can be scanned (Backend::scan), when a tenant asks first; and what
  // others stored in tiers that cannot, which have an index (passages_index.cpp), as far as it is of `ids`.
  void learn(const std::string& tenant);
  void learn_indexed(const std::string& tenant, std::span<const std::int32_t> ids, Deadline deadline);
  // Looks for elements of `ids` at any place of what is known, with the chunks that they lie in. Ids are compared with
  // those of the chunks. scope.skip is found here. In the caller's thread, until the deadline.
  Moved find(std::string_view tenant, std::span<const std::int32_t> ids, ContentIndex::Scope scope, Deadline deadline);

 private:
  // REQUIRES: stored_mutex_ is held.
  void scan_stored();
  // Of the tiers with an index.
  static bool has_index(const Tier& tier) { return !tier.scans() && !tier.immediate(); }
  void index_pieces(const std::string& tenant, std::span<const std::int32_t> ids, std::span<const std::int64_t> begins);

  const kv::Cache& cache_;
  const Fingerprint fingerprint_;
  const std::vector<std::shared_ptr<Tier>> tiers_;
  bool immediate_ = true;
  ContentIndex content_;

  // What tiers had when the first search asked for texts at other places, as far as it was not learnt yet.
  struct Stored {
    Key key;
    std::vector<std::int32_t> ids;
    std::int64_t used = 0;
  };
  std::mutex stored_mutex_;  // of these three; held while tiers are scanned
  bool scanned_ = false;
  std::unordered_map<Key, std::vector<Stored>> stored_;  // by parent
  std::set<std::string> learnt_;                         // tenants
};

}  // namespace kvasir::store
