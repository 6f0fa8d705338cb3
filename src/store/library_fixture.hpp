// A cache, a library over one tier, and texts with what a model would make of them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kv/cache_fixture.hpp"
#include "store/library.hpp"
#include "store/open.hpp"

namespace kvasir::store {

using kv::Cache;
using kv::CacheOptions;
using kv::Sequence;
using namespace kv::fixture;

// An ordinary layer, one with a window, and one that reads the first one's keys and values.
const kv::CacheShape kShape{{{2, 4, 32, 32}, {2, 4, 32, 32, 200}, {2, 4, 32, 32, 0, 0}}};
constexpr int kMost = 1200;

// Token ids and what the model would make of them: from `part` on both are those of text `variant`.
struct Text {
  std::vector<std::int32_t> ids;
  Tokens tokens;
};

inline Text text(int n, int part = kMost, int variant = 0) {
  Text t{{}, random_tokens(kShape, n, 3)};
  t.ids.resize(static_cast<std::size_t>(n));
  std::iota(t.ids.begin(), t.ids.end(), 10);
  if (part >= n) return t;
  const Tokens other = random_tokens(kShape, n, 100 + static_cast<std::uint64_t>(variant));
  for (int i = part; i < n; ++i) t.ids[static_cast<std::size_t>(i)] = 5000 + 100 * variant + i;
  const auto replace = [&](std::vector<std::vector<float>>& to, const std::vector<std::vector<float>>& from, int row) {
    for (std::size_t l = 0; l < to.size(); ++l)
      std::copy(from[l].begin() + part * row, from[l].end(), to[l].begin() + part * row);
  };
  replace(t.tokens.q, other.q, kShape.at(0).query_heads * kShape.at(0).head_dim);
  replace(t.tokens.k, other.k, kShape.at(0).kv_heads * kShape.at(0).head_dim);
  replace(t.tokens.v, other.v, kShape.at(0).kv_heads * kShape.at(0).head_dim_v);
  return t;
}

class LibraryTest : public ::testing::TestWithParam<std::string> {
 protected:
  LibraryTest() {
    CacheOptions o{.k_codec = "rq4", .v_codec = "rq4", .max_tokens = 8192, .max_sequences = 4, .step_tokens = kMost};
    cache_ = std::make_unique<Cache>(team_, kShape, o);
    reopen();
  }
  // A library over `tiers`, each behind what `wrap` makes of it.
  void open(const std::vector<std::string>& tiers, const Wrap& wrap = {}, const char* fingerprint = "test") {
    library_.reset();
    std::vector<std::shared_ptr<Tier>> opened;
    for (const std::string& spec : tiers) opened.push_back(open_tier(spec, wrap));
    library_ = std::make_unique<Library>(*cache_, fingerprint_of(fingerprint), std::move(opened));
  }
  void reopen(const char* fingerprint = "test", const std::string& options = "") {
    open({(GetParam() == "ram" ? "ram:?size=64MiB" : lmdb_) + options}, {}, fingerprint);
  }
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    reopen();
  }
  void TearDown() override {
    library_.reset();
    std::filesystem::remove_all(folder_);
  }

  Known search(const std::vector<std::int32_t>& ids, const std::string& tenant = "") {
    std::promise<void> over;
    const auto s = library_->search(tenant, ids, within(std::chrono::seconds(20)), [&] { over.set_value(); });
    if (!s->ready()) over.get_future().wait();
    return s->take();
  }
  // Computes the first n tokens from what the library knows and offers them. Returns how many it knew.
  std::int64_t compute(const Text& t, int n, const std::string& tenant = "", int offer_at = -1) {
    const std::vector<std::int32_t> ids(t.ids.begin(), t.ids.begin() + n);
    const Known known = search(ids, tenant);
    Chain chain(library_->fingerprint(), tenant);
    Sequence* s = known.tokens > 0 ? library_->restore(known, ids, chain) : cache_->create();
    for (int at = static_cast<int>(known.tokens); at < n;) {
      const int stop = offer_at > at ? std::min(offer_at, n) : n;
      feed(*cache_, s, t.tokens, at, stop, 100);
      at = stop;
      if (at == offer_at) library_->offer(chain, ids, *s, Library::Offering::kTail, 50);
    }
    Sequence* alone = cache_->create();
    feed(*cache_, alone, t.tokens, 0, n, 512);
    EXPECT_EQ(cache_->bytes().digest(*s), cache_->bytes().digest(*alone)) << "from " << known.tokens << " of " << n;
    library_->offer(chain, ids, *s, Library::Offering::kTail, 50);
    library_->remember(tenant, ids);
    for (const auto& tier : library_->tiers()) EXPECT_TRUE(tier->flush().ok());
    cache_->release(s);
    cache_->release(alone);
    cache_->check_integrity();
    return known.tokens;
  }

  const std::string folder_ = testing::TempDir() + "kvasir-library-" + std::to_string(getpid());
  const std::string lmdb_ = "lmdb:" + folder_ + "?size=64MiB";
  Team team_{2};
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Library> library_;
};

}  // namespace kvasir::store
