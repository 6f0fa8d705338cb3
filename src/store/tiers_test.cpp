// Every entry of store/tiers keeps the contract of store/backend.hpp. A tier that needs a server finds its address in
// KVASIR_TEST_<NAME>; for redis one is started when there is none.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include "store/faulty_fixture.hpp"
#include "store/store_fixture.hpp"

namespace kvasir::store {
namespace {

class Tiers : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    kind_ = find(tiers(), GetParam());
    ASSERT_TRUE(kind_);
    if (kind_->place == Place::kFolder) address_ = folder_.path();
    if (kind_->place == Place::kServer) find_server();
  }
  void find_server() {
    std::string variable = "KVASIR_TEST_" + GetParam();
    for (char& c : variable) c = static_cast<char>(std::toupper(c));
    if (const char* given = std::getenv(variable.c_str())) {
      address_ = given;
    } else if (GetParam() == "redis" && RedisServer::available()) {
      server_ = std::make_unique<RedisServer>();
      address_ = server_->address();
    } else {
      GTEST_SKIP() << "tier " << GetParam() << " is not tested: " << variable << " is not set"
                   << (GetParam() == "redis" ? " and there is no redis-server (Debian package redis-server)" : "");
    }
  }
  // `options`: "size=1MiB&..."; a size is left out where the place has its own.
  std::unique_ptr<Tier> open(const std::string& options = "", const Wrap& wrap = {}) {
    try {
      auto tier = open_tier(GetParam() + ":" + address_ + "?timeout=5s&" + options, wrap);
      if (server_) {
        EXPECT_TRUE(tier->clear().ok());
      }
      return tier;
    } catch (const Error& e) {
      if (e.code() != Code::kUnsupported) throw;
      reason_ = e.what();
      return nullptr;
    }
  }
  std::string sized(const std::string& size) const { return kind_->place == Place::kServer ? "" : "size=" + size; }
  static void put_all(Tier& tier, const TestChain& chain) {
    for (std::size_t i = 0; i < chain.keys.size(); ++i) tier.put(chain.keys[i], chain.records[i]);
    ASSERT_TRUE(tier.flush().ok());
  }

  const TierKind* kind_ = nullptr;
  TempFolder folder_;
  std::unique_ptr<RedisServer> server_;
  std::string address_;
  std::string reason_;
};

#define OPEN(name, ...)          \
  auto name = open(__VA_ARGS__); \
  if (!name) GTEST_SKIP() << reason_

TEST_P(Tiers, ReturnWhatWasPut) {
  OPEN(tier);
  std::vector<Key> keys;
  std::map<Key, SharedBytes> put;
  std::uint64_t seed = 1;
  for (const std::size_t payload : {0, 1, 100, 1900, 2100, 4000, 4096, 70000, 3000000}) {
    const TestChain c(seed++, 2, payload);
    put_all(*tier, c);
    for (std::size_t i = 0; i < 2; ++i) {
      keys.push_back(c.keys[i]);
      put[c.keys[i]] = c.records[i];
      keys.push_back(root_key(kPrint, "absent " + std::to_string(payload + i)));
    }
  }
  const auto found = tier->get(keys, {.fingerprint = kPrint}).take();
  const auto there = tier->contains(keys).take();
  ASSERT_EQ(found.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto it = put.find(keys[i]);
    EXPECT_EQ(found[i].outcome, it == put.end() ? Outcome::kAbsent : Outcome::kFound) << i;
    EXPECT_EQ(there[i].outcome, found[i].outcome) << i;
    if (it == put.end() || !found[i]) continue;
    EXPECT_TRUE(same_bytes(found[i].bytes, it->second)) << i;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found[i].bytes.bytes.data()) % kPayloadAlign, 0u) << i;
    const Parsed mine = parse_record(it->second.bytes);
    EXPECT_EQ(found[i].record.head.parent, mine.record.head.parent);
  }
  const Stats s = tier->stats();
  EXPECT_EQ(s.hits, put.size());
  EXPECT_EQ(s.misses, keys.size() - put.size());
  EXPECT_EQ(s.inserts, put.size());
  EXPECT_EQ(s.usage.records, put.size());
  EXPECT_EQ(s.errors, 0u) << s.last_error;
}

// By which tools tell that a folder holds a cache, and how they open it (cli/cache.cpp).
TEST_P(Tiers, SayHowToolsOpenThem) {
  EXPECT_EQ(kind_->file == nullptr, kind_->inspect == nullptr);
  if (!kind_->file) return;
  ASSERT_EQ(kind_->place, Place::kFolder);
  EXPECT_FALSE(kind_->private_memory);
  OPEN(made, sized("1MiB"));
  made.reset();
  EXPECT_TRUE(std::filesystem::exists(address_ + "/" + kind_->file));
  OPEN(seen, kind_->inspect);
  EXPECT_EQ(seen->stats().usage.records, 0u);
}

TEST_P(Tiers, AnswerEmptyBatches) {
  OPEN(tier);
  EXPECT_TRUE(tier->get({}).take().empty());
  EXPECT_TRUE(tier->contains({}).take().empty());
  EXPECT_TRUE(tier->erase({}).ok());
}

TEST_P(Tiers, ReplaceAndKeep) {
  OPEN(tier);
  const TestChain a(1, 2, 5000), b(2, 2, 9000);
  put_all(*tier, a);
  tier->put(a.keys[0], b.records[0]);
  ASSERT_TRUE(tier->flush().ok());
  const auto found = tier->get(a.keys).take();
  ASSERT_EQ(count_found(found), 2);
  EXPECT_TRUE(same_bytes(found[0].bytes, b.records[0]));
  EXPECT_TRUE(same_bytes(found[1].bytes, a.records[1]));
  put_all(*tier, a);  // the first back, the second as it is
  EXPECT_TRUE(same_bytes(tier->get(a.keys).take()[0].bytes, a.records[0]));
  EXPECT_EQ(tier->stats().usage.records, 2u);
}

TEST_P(Tiers, EraseListAndClear) {
  OPEN(tier);
  std::map<Key, std::uint64_t> expected;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {  // more than a slice, and small
    const TestChain c(seed, 5, 10 + seed);
    for (std::size_t i = 0; i < 5; ++i) {
      tier->put(c.keys[i], c.records[i]);
      expected[c.keys[i]] = c.records[i].bytes.size();
    }
  }
  ASSERT_TRUE(tier->flush().ok());
  const auto listed = [&] {
    std::map<Key, std::uint64_t> all;
    const Status s = tier->list([&](const Listed& l) { return all.emplace(l.key, l.bytes).second; });
    EXPECT_TRUE(s.ok()) << s.why;
    return all;
  };
  EXPECT_EQ(listed(), expected);
  int seen = 0;
  EXPECT_TRUE(tier->list([&](const Listed&) { return ++seen < 7; }).ok());
  EXPECT_EQ(seen, 7);
  const TestChain gone(7, 5, 17);
  EXPECT_TRUE(tier->erase(gone.keys).ok());
  EXPECT_EQ(count_found(tier->contains(gone.keys).take()), 0);
  for (const Key& key : gone.keys) expected.erase(key);
  EXPECT_EQ(listed(), expected);
  EXPECT_TRUE(tier->clear().ok());
  EXPECT_TRUE(listed().empty());
  EXPECT_EQ(tier->stats().errors, 0u) << tier->stats().last_error;
}

TEST_P(Tiers, HideForeignAndDropDamagedRecords) {
  Backend* raw = nullptr;
  OPEN(tier, "check=full", [&](std::unique_ptr<Backend> b) {
    raw = b.get();
    return b;
  });
  const TestChain a(1, 3, 9000);
  put_all(*tier, a);
  const auto other = tier->get(a.keys, {.fingerprint = fingerprint_of("another model")}).take();
  for (const Found& f : other) EXPECT_EQ(f.outcome, Outcome::kForeign);
  EXPECT_EQ(count_found(tier->get(a.keys, {.fingerprint = kPrint}).take()), 3) << "foreign records stay";
  EXPECT_EQ(tier->stats().foreign, 3u);

  auto bad = allocate_block(a.records[1].bytes.size());
  std::copy(a.records[1].bytes.begin(), a.records[1].bytes.end(), bad.get());
  bad.get()[5000] ^= std::byte{4};
  const Offer damaged{a.keys[1], {bad, {bad.get(), a.records[1].bytes.size()}, true}, {.parent = a.keys[0]}};
  PutOutcome outcome{};
  ASSERT_TRUE(raw->erase(std::span(a.keys).subspan(1, 1), within(5s)).ok());
  ASSERT_TRUE(raw->put(std::span(&damaged, 1), within(5s), std::span(&outcome, 1)).ok());
  const auto found = tier->get(a.keys).take();
  EXPECT_EQ(found[0].outcome, Outcome::kFound);
  EXPECT_EQ(found[1].outcome, Outcome::kDamaged);
  EXPECT_FALSE(found[1].bytes);
  EXPECT_EQ(tier->stats().damaged, 1u);
  EXPECT_EQ(tier->stats().misses, 4u);
  ASSERT_TRUE(tier->flush().ok());
  EXPECT_EQ(tier->contains(a.keys).take()[1].outcome, Outcome::kAbsent) << "it made place for a good one";
  put_all(*tier, a);
  EXPECT_EQ(count_found(tier->get(a.keys).take()), 3);
}

TEST_P(Tiers, RefuseWhatIsNoRecord) {
  OPEN(tier);
  const auto bytes = noise(500, 1);
  EXPECT_EQ(tier->put(root_key(kPrint), copy_bytes(bytes)), Tier::Taken::kRefused);
  EXPECT_EQ(tier->stats().usage.records, 0u);
}

// Records that were handed out stay as they were whatever happens to the tier.
TEST_P(Tiers, RecordsOutliveTheTier) {
  OPEN(tier);
  const TestChain a(1, 3, 50000);
  put_all(*tier, a);
  auto found = tier->get(a.keys).take();
  EXPECT_TRUE(tier->clear().ok());
  for (std::uint64_t seed = 10; seed < 20; ++seed) put_all(*tier, TestChain(seed, 3, 50000));
  tier.reset();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bytes(found[i].bytes, a.records[i]));
}

TEST_P(Tiers, PassOnToAnotherTier) {
  OPEN(tier);
  const TestChain a(1, 3, 50000);
  put_all(*tier, a);
  auto ram = open_tier("ram:");
  auto found = tier->get(a.keys).take();
  for (std::size_t i = 0; i < 3; ++i) ram->put(a.keys[i], found[i].bytes);
  found.clear();
  tier.reset();
  found = ram->get(a.keys).take();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bytes(found[i].bytes, a.records[i]));
}

// More records than there is room for, of many sizes: the budget holds at every moment, chains lose their ends and not
// their beginnings, and what was dear to compute stays longer.
TEST_P(Tiers, KeepTheirBudgetAndTheirChains) {
  if (kind_->place == Place::kServer) GTEST_SKIP() << "its server has the budget";
  OPEN(tier, sized("4MiB"));
  std::map<Key, Key> parents;
  std::vector<TestChain> chains;
  std::uint64_t state = 5;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const bool dear = seed % 2 == 0;
    chains.emplace_back(seed, 1 + static_cast<int>(splitmix64(state) % 6), 1000 + splitmix64(state) % 60000,
                        dear ? 100.0f : 1.0f);
    const TestChain& c = chains.back();
    for (std::size_t i = 0; i < c.keys.size(); ++i) {
      tier->put(c.keys[i], c.records[i]);
      parents[c.keys[i]] = parse_record(c.records[i].bytes).record.head.parent;
    }
    if (seed % 10 != 9) continue;
    ASSERT_TRUE(tier->flush().ok());
    const Stats s = tier->stats();
    ASSERT_LE(s.usage.bytes, s.usage.budget);
    std::set<Key> listed;
    std::uint64_t bytes = 0;
    ASSERT_TRUE(tier->list([&](const Listed& l) {
                      bytes += l.bytes;
                      return listed.insert(l.key).second;
                    })
                    .ok());
    EXPECT_LE(bytes, s.usage.bytes);
    EXPECT_EQ(listed.size(), s.usage.records);
    for (const Key& key : listed)
      EXPECT_TRUE(listed.contains(parents[key]) || !parents.contains(parents[key])) << "an orphan";
  }
  int dear = 0, cheap = 0;
  for (std::size_t i = 0; i < 100; ++i)
    (i % 2 == 0 ? dear : cheap) += count_found(tier->contains(chains[i].keys).take());
  EXPECT_GT(dear, 2 * cheap);
  const Stats s = tier->stats();
  EXPECT_GT(s.usage.evictions, 100u);
  EXPECT_GT(s.usage.bytes, s.usage.budget / 2) << "room is used";
  EXPECT_EQ(s.errors, 0u) << s.last_error;
  EXPECT_EQ(s.dropped, 0u);
}

// Readers, writers and erasers at once: what is found is what was put.
TEST_P(Tiers, WorkForManyThreads) {
  OPEN(tier, sized("8MiB"));
  std::vector<TestChain> chains;
  for (std::uint64_t seed = 0; seed < 40; ++seed) chains.emplace_back(seed, 4, 30000);
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  const auto end = within(700ms);
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t state = t; Clock::now() < end;) {
        const TestChain& c = chains[splitmix64(state) % chains.size()];
        const auto what = splitmix64(state) % 8;
        if (what < 3)
          for (std::size_t i = 0; i < 4; ++i) tier->put(c.keys[i], c.records[i]);
        else if (what == 3)
          tier->erase(c.keys);
        else if (what == 4)
          tier->touch(c.keys);
        auto answers = tier->get(c.keys).take();
        for (std::size_t i = 0; i < 4; ++i) {
          if (!answers[i]) continue;
          ++found;
          if (!same_bytes(answers[i].bytes, c.records[i])) ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
  EXPECT_TRUE(tier->flush().ok());
  const Stats s = tier->stats();
  EXPECT_EQ(s.errors, 0u) << s.last_error;
  EXPECT_EQ(s.damaged + s.foreign, 0u);
}

TEST_P(Tiers, ReturnNothingWrongUnderFaults) {
  auto count = std::make_shared<FaultCount>();
  OPEN(tier, "check=full", [&](std::unique_ptr<Backend> b) {
    return faulty(std::move(b), {.seed = 3, .delay = 100us, .fail = 0.1, .flip = 0.2, .drop = 0.2}, count);
  });
  std::uint64_t hits = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const TestChain c(seed, 3, 3000);
    for (std::size_t i = 0; i < 3; ++i) tier->put(c.keys[i], c.records[i]);
    tier->flush();
    const auto found = tier->get(c.keys).take();
    for (std::size_t i = 0; i < 3; ++i) {
      if (!found[i]) continue;
      ++hits;
      EXPECT_TRUE(same_bytes(found[i].bytes, c.records[i]));
    }
  }
  const Stats s = tier->stats();
  EXPECT_EQ(s.hits, hits);
  EXPECT_EQ(s.hits + s.misses, 180u);
  EXPECT_EQ(s.damaged + s.foreign, count->flipped);
  EXPECT_GE(s.errors, count->failed / 2);
  EXPECT_GT(count->flipped, 5u);
  EXPECT_GT(count->dropped, 5u);
  EXPECT_GT(hits, 60u);
}

TEST_P(Tiers, SayThatTheyCannotPinOrPin) {
  OPEN(tier);
  const TestChain a(1, 2, 1000);
  put_all(*tier, a);
  const Status s = tier->pin(a.keys, 1s);
  if (!s.ok()) {
    EXPECT_EQ(s.why, "this tier cannot pin records");
    return;
  }
  EXPECT_GT(tier->stats().usage.pinned_bytes, 2000u);
  EXPECT_TRUE(tier->unpin(a.keys).ok());
  EXPECT_EQ(tier->stats().usage.pinned_bytes, 0u);
}

std::vector<std::string> tier_names() {
  std::vector<std::string> all;
  for (const auto& e : tiers()) all.emplace_back(e.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Tiers, testing::ValuesIn(tier_names()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kvasir::store
