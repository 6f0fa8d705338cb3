// What stands in front of a backend: specifications, queues, deadlines, rates, and the order in which memory gives up
// records.
#include "store/tier.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "store/decorator_fixture.hpp"
#include "store/faulty_fixture.hpp"
#include "store/shelf.hpp"
#include "store/spec.hpp"
#include "store/store_fixture.hpp"

namespace kvasir::store {
namespace {

std::string message_of(const std::string& specification) {
  try {
    open_tier(specification);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput) << e.what();
    return e.what();
  }
  return "opened";
}

TEST(Spec, SaysWhatIsWrong) {
  EXPECT_EQ(message_of("rma:"), "tier: unknown tier 'rma' (did you mean 'ram'?), expected one of: " + names(tiers()) +
                                    " (as 'lmdb:/var/cache/kvasir?size=10GiB')");
  EXPECT_EQ(message_of("ram:?size=4XB"),
            "ram: size: expected a size from 4KiB to 1024TiB (as 4096, 64KiB, 1.5GiB, 2GB), found '4XB'");
  EXPECT_EQ(message_of("ram:?size=1"),
            "ram: size: expected a size from 4KiB to 1024TiB (as 4096, 64KiB, 1.5GiB, 2GB), found '1'");
  EXPECT_EQ(message_of("ram:?sise=1GiB"),
            "ram:: unknown option 'sise' (did you mean 'size'?); tier ram has queue, rate, timeout, check, size, pins");
  EXPECT_EQ(message_of("ram:?size=1GiB&size=2GiB"), "ram:: option 'size' is given twice");
  EXPECT_EQ(message_of("ram:?size"), "ram:: expected OPTION=VALUE behind '?', found 'size'");
  EXPECT_EQ(message_of("ram:somewhere"),
            "ram:somewhere: expected nothing behind the colon, as in "
            "ram:?size=1GiB&pins=512MiB");
  EXPECT_EQ(message_of("lmdb:"), "lmdb:: a folder is missing, as in lmdb:FOLDER?size=10GiB");
  EXPECT_EQ(message_of("ram:?timeout=50"),
            "ram: timeout: expected a time with its unit (as 50ms, 2s, 5min, 12h, 7d), found '50'");
  EXPECT_EQ(message_of("ram:?check=maybe"), "ram: check: expected one of full, head, found 'maybe'");
  EXPECT_EQ(message_of("ram:?size=%4"), "ram: size: expected two hexadecimal digits behind each '%'");
}

TEST(Spec, ReadsUnits) {
  Spec s("x:a:b?a=1.5GiB&b=2GB&c=4096&d=250us&e=7d&f=200MiB/s&g=a%26b%25");
  EXPECT_EQ(s.address(), "a:b");
  EXPECT_EQ(s.bytes("a", 0, 0, UINT64_MAX), 1610612736u);
  EXPECT_EQ(s.bytes("b", 0, 0, UINT64_MAX), 2000000000u);
  EXPECT_EQ(s.bytes("c", 0, 0, UINT64_MAX), 4096u);
  EXPECT_EQ(s.time("d", 0s), 250us);
  EXPECT_EQ(s.time("e", 0s), 168h);
  EXPECT_EQ(s.rate("f", 0), 200u << 20);
  EXPECT_EQ(s.text("g", ""), "a&b%");
  EXPECT_EQ(s.text("absent", "otherwise"), "otherwise");
  s.finish();
}

// --- memory ---------------------------------------------------------------------------------------------------------

// A shelf for `n` records like those of TestChain(..., payload).
std::unique_ptr<Tier> shelf_of(int n, std::size_t payload, std::string more = "") {
  const auto charge = TestChain(0, 1, payload).records[0].bytes.size() + Shelf::kOverhead;
  return open_tier("ram:?size=" + std::to_string(static_cast<std::uint64_t>(n) * charge) + more);
}

bool has(Tier& tier, const Key& key) { return count_found(tier.contains(std::span(&key, 1)).take()) == 1; }
void use(Tier& tier, const Key& key) { EXPECT_EQ(count_found(tier.get(std::span(&key, 1)).take()), 1); }
void put_all(Tier& tier, const TestChain& chain) {
  for (std::size_t i = 0; i < chain.keys.size(); ++i) tier.put(chain.keys[i], chain.records[i]);
}

TEST(Ram, WhatSavesLeastPerByteGoesFirst) {
  auto tier = shelf_of(4, 1000);
  const TestChain cheap(1, 1, 1000, 1), dear(2, 1, 1000, 5), used(3, 1, 1000, 1), next(4, 1, 1000, 3),
      last(5, 1, 1000, 3);
  for (const TestChain* c : {&dear, &used, &cheap, &next}) put_all(*tier, *c);
  use(*tier, used.keys[0]);
  put_all(*tier, last);
  EXPECT_FALSE(has(*tier, cheap.keys[0]));
  for (const TestChain* c : {&dear, &used, &next, &last}) EXPECT_TRUE(has(*tier, c->keys[0]));
  EXPECT_EQ(tier->stats().usage.evictions, 1u);
}

TEST(Ram, WhatIsNotUsedAgainAges) {
  auto tier = shelf_of(4, 1000);
  const TestChain once_dear(1, 1, 1000, 6);
  put_all(*tier, once_dear);
  int rounds = 0;
  for (; rounds < 100 && has(*tier, once_dear.keys[0]); ++rounds)
    put_all(*tier, TestChain(100 + static_cast<std::uint64_t>(rounds), 1, 1000, 1));
  EXPECT_GT(rounds, 12);  // worth six of the others, three places: 3 * 6 and a little
  EXPECT_LT(rounds, 24);
}

TEST(Ram, AParentNeverGoesBeforeItsChildren) {
  auto tier = shelf_of(6, 1000);
  const TestChain first(1, 4, 1000);
  put_all(*tier, first);
  for (std::uint64_t seed = 10; seed < 60; ++seed) {
    put_all(*tier, TestChain(seed, 1, 1000));
    bool before = true;
    for (const Key& key : first.keys) {
      const bool now = has(*tier, key);
      EXPECT_TRUE(before || !now) << "a child without its parent";
      before = now;
    }
  }
  EXPECT_FALSE(has(*tier, first.keys[0]));
}

TEST(Ram, PinsHoldUntilTheyEnd) {
  auto tier = shelf_of(4, 1000);
  const TestChain pinned(1, 2, 1000);
  put_all(*tier, pinned);
  EXPECT_TRUE(tier->pin(std::span(pinned.keys).last(1), 150ms).ok());
  for (std::uint64_t seed = 10; seed < 30; ++seed) put_all(*tier, TestChain(seed, 1, 1000, 50));
  EXPECT_TRUE(has(*tier, pinned.keys[0]) && has(*tier, pinned.keys[1])) << "a pinned record keeps its parents";
  EXPECT_GT(tier->stats().usage.pinned_bytes, 0u);
  std::this_thread::sleep_for(160ms);
  for (std::uint64_t seed = 30; seed < 40; ++seed) put_all(*tier, TestChain(seed, 1, 1000, 50));
  EXPECT_FALSE(has(*tier, pinned.keys[1]));
  EXPECT_EQ(tier->stats().usage.pinned_bytes, 0u);
}

TEST(Ram, PinsAreBoundedAndCanBeTakenBack) {
  auto tier = shelf_of(4, 1000);
  const TestChain a(1, 4, 1000);
  put_all(*tier, a);
  const Status s = tier->pin(a.keys, 1h);
  EXPECT_NE(s.why.find("more than"), std::string::npos) << s.why;
  EXPECT_LE(tier->stats().usage.pinned_bytes, tier->stats().usage.budget / 2);
  EXPECT_TRUE(tier->unpin(a.keys).ok());
  EXPECT_EQ(tier->stats().usage.pinned_bytes, 0u);
  for (std::uint64_t seed = 10; seed < 30; ++seed) put_all(*tier, TestChain(seed, 1, 1000, 50));
  for (const Key& key : a.keys) EXPECT_FALSE(has(*tier, key));
}

TEST(Ram, WhatIsTooLargeIsRefusedAndHarmsNothing) {
  auto tier = shelf_of(4, 1000);
  const TestChain a(1, 4, 1000), large(2, 1, 100000);
  put_all(*tier, a);
  EXPECT_EQ(tier->put(large.keys[0], large.records[0]), Tier::Taken::kRefused);
  for (const Key& key : a.keys) EXPECT_TRUE(has(*tier, key));
  EXPECT_EQ(tier->stats().refused, 1u);
}

TEST(Ram, SharesTheBytesThatWerePut) {
  auto tier = shelf_of(4, 1000);
  const TestChain a(1, 1, 1000);
  put_all(*tier, a);
  const auto found = tier->get(a.keys).take();
  EXPECT_EQ(found[0].bytes.bytes.data(), a.records[0].bytes.data());
}

// --- the front ------------------------------------------------------------------------------------------------------

std::unique_ptr<Tier> tier_with(const Faults& faults, const std::string& options = "") {
  return open_tier("ram:?check=full" + options,
                   [&](std::unique_ptr<Backend> b) { return faulty(std::move(b), faults); });
}

TEST(Front, ASlowBackendHoldsNobodyUp) {
  auto tier = tier_with({.delay = 1500ms}, "&timeout=20s");
  const TestChain a(1, 2, 1000);
  const auto begin = Clock::now();
  put_all(*tier, a);
  const TestChain other(2, 2, 1000);
  Lookup lookup = tier->get(other.keys, {.deadline = within(50ms)});
  EXPECT_FALSE(lookup.ready());
  const auto found = lookup.take();
  EXPECT_LT(Clock::now() - begin, 1200ms);
  for (const Found& f : found) EXPECT_EQ(f.outcome, Outcome::kLate);
  EXPECT_TRUE(tier->flush(within(20s)).ok());
  Lookup patient = tier->get(a.keys, {.deadline = within(20s)});
  EXPECT_TRUE(patient.wait(within(20s)));
  EXPECT_EQ(count_found(patient.take()), 2);
  EXPECT_EQ(tier->stats().late, 2u);
}

// A conversation goes on before a busy disk has taken its last turn.
TEST(Front, WhatWaitsToBeWrittenIsFound) {
  auto count = std::make_shared<FaultCount>();
  auto tier = open_tier("ram:?timeout=20s&check=full",
                        [&](std::unique_ptr<Backend> b) { return faulty(std::move(b), {.delay = 400ms}, count); });
  const TestChain a(1, 3, 1000), none(2, 1, 1000);
  put_all(*tier, a);
  const auto begin = Clock::now();
  EXPECT_EQ(count_found(tier->contains(a.keys, {.deadline = within(20s)}).take()), 3);
  const auto found = tier->get(a.keys, {.deadline = within(20s)}).take();
  EXPECT_LT(Clock::now() - begin, 400ms) << "it waited for the backend";
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(found[i]);
    EXPECT_EQ(found[i].bytes.bytes.data(), a.records[i].bytes.data());  // the same memory
    EXPECT_EQ(found[i].record.head.parent, i > 0 ? a.keys[i - 1] : found[i].record.head.parent);
  }
  EXPECT_EQ(count->gets, 0u);
  std::vector<Key> mixed{a.keys[2], none.keys[0], a.keys[0]};  // each answer in its place
  const auto some = tier->get(mixed, {.deadline = within(20s)}).take();
  EXPECT_TRUE(some[0]);
  EXPECT_EQ(some[1].outcome, Outcome::kAbsent);
  EXPECT_TRUE(some[2]);
  const Fingerprint foreign = Fingerprint{};
  EXPECT_EQ(tier->get(a.keys, {.fingerprint = foreign, .deadline = within(20s)}).take()[0].outcome, Outcome::kForeign);
  EXPECT_TRUE(tier->flush(within(20s)).ok());
  EXPECT_EQ(count_found(tier->get(a.keys, {.deadline = within(20s)}).take()), 3);
  EXPECT_TRUE(tier->erase(a.keys, within(20s)).ok());
  EXPECT_EQ(count_found(tier->get(a.keys, {.deadline = within(20s)}).take()), 0);
}

// The last of several records under a key counts, while the first is written and afterwards.
TEST(Front, TheNewestQueuedRecordIsFound) {
  auto tier = tier_with({.delay = 200ms}, "&timeout=20s");
  const TestChain one(1, 1, 1000), two(1, 1, 2000);
  tier->put(one.keys[0], one.records[0]);
  std::this_thread::sleep_for(50ms);  // it is being written
  tier->put(one.keys[0], two.records[0]);
  const auto size = [&] { return tier->get(one.keys, {.deadline = within(20s)}).take()[0].bytes.bytes.size(); };
  const std::size_t wanted = two.records[0].bytes.size();
  EXPECT_EQ(size(), wanted);
  std::this_thread::sleep_for(250ms);  // the first is written, the second is not or is
  EXPECT_EQ(size(), wanted);
  EXPECT_TRUE(tier->flush(within(20s)).ok());
  EXPECT_EQ(size(), wanted);
}

// Of records that nothing replaces a few are held, whatever the bound is.
TEST(Front, AQueueHasRoomForWhatIsExpected) {
  auto tier = tier_with({.delay = 500ms}, "&queue=4KiB");
  tier->expect(2048);
  int dropped = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TestChain c(seed, 1, 1000);
    dropped += tier->put(c.keys[0], c.records[0]) == Tier::Taken::kDropped ? 1 : 0;
  }
  EXPECT_EQ(dropped, 13);  // seven of 1112 bytes fit into four times 2048
  EXPECT_TRUE(tier->flush(within(10s)).ok());
}

TEST(Front, AFullQueueDropsAndCounts) {
  auto tier = tier_with({.delay = 500ms}, "&queue=4KiB");
  int dropped = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TestChain c(seed, 1, 1000);
    dropped += tier->put(c.keys[0], c.records[0]) == Tier::Taken::kDropped ? 1 : 0;
    EXPECT_LE(tier->stats().queue_bytes, 4096u);
  }
  EXPECT_EQ(dropped, 17);  // three records of 1112 bytes fit, and those being written count
  EXPECT_EQ(tier->stats().dropped, 17u);
  EXPECT_TRUE(tier->flush(within(5s)).ok());
  EXPECT_EQ(tier->stats().inserts, 3u);
  EXPECT_EQ(tier->stats().queue_bytes, 0u);
}

TEST(Front, TheSameRecordIsQueuedOnce) {
  auto count = std::make_shared<FaultCount>();
  auto tier =
      open_tier("ram:", [&](std::unique_ptr<Backend> b) { return faulty(std::move(b), {.delay = 50ms}, count); });
  const TestChain first(1, 1, 100), again(2, 1, 1000);
  put_all(*tier, first);
  std::this_thread::sleep_for(10ms);  // the writer is busy with it
  for (int i = 0; i < 10; ++i) put_all(*tier, again);
  EXPECT_LE(tier->stats().queue_records, 2u);
  EXPECT_TRUE(tier->flush(within(5s)).ok());
  EXPECT_EQ(count->put, 2u);
}

TEST(Front, WritesNoFasterThanItsRate) {
  auto tier = tier_with({.delay = 1us}, "&rate=1MB");
  const auto begin = Clock::now();
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    put_all(*tier, TestChain(seed, 1, 100000));
    std::this_thread::sleep_for(1ms);
  }
  while (tier->stats().queue_records > 0) std::this_thread::sleep_for(5ms);
  // The first goes at once; the others wait for what went before them.
  EXPECT_GT(Clock::now() - begin, 95ms);
  EXPECT_EQ(tier->stats().inserts, 4u);
  put_all(*tier, TestChain(9, 1, 3000000));
  put_all(*tier, TestChain(10, 1, 1000));
  const auto flush_begin = Clock::now();
  EXPECT_TRUE(tier->flush(within(5s)).ok());
  EXPECT_LT(Clock::now() - flush_begin, 2s) << "flush waited for the rate";
}

TEST(Front, ALookupNobodyWaitsForIsNotBegun) {
  auto count = std::make_shared<FaultCount>();
  auto tier = open_tier("ram:?timeout=5s",
                        [&](std::unique_ptr<Backend> b) { return faulty(std::move(b), {.delay = 100ms}, count); });
  const TestChain a(1, 1, 100);
  Lookup first = tier->get(a.keys, {.deadline = within(5s)});
  std::this_thread::sleep_for(20ms);
  for (int i = 0; i < 20; ++i) tier->get(a.keys, {.deadline = within(5s)});  // dropped at once
  Lookup last = tier->get(a.keys, {.deadline = within(5s)});
  EXPECT_TRUE(last.wait(within(5s)));
  EXPECT_EQ(count->gets, 2u);
}

TEST(Front, AnEraseComesAfterThePutsBeforeIt) {
  auto tier = tier_with({.delay = 5ms});
  const TestChain a(1, 3, 1000);
  put_all(*tier, a);
  EXPECT_TRUE(tier->erase(a.keys, within(5s)).ok());
  EXPECT_EQ(count_found(tier->contains(a.keys, {.deadline = within(5s)}).take()), 0);
  put_all(*tier, a);
  EXPECT_TRUE(tier->flush(within(5s)).ok());
  EXPECT_EQ(count_found(tier->contains(a.keys, {.deadline = within(5s)}).take()), 3);
}

class Throwing : public Decorator {
 public:
  using Decorator::Decorator;
  Traits traits() const override { return {.immediate = false, .readers = 1}; }
  Status get(std::span<const Key>, Deadline, std::span<Answer>) override { throw std::bad_alloc(); }
  Status put(std::span<const Offer>, Deadline, std::span<PutOutcome>) override { throw std::bad_alloc(); }
};

TEST(Front, NothingCrossesAThreadAsAnException) {
  auto tier = open_tier("ram:", [](std::unique_ptr<Backend> b) { return std::make_unique<Throwing>(std::move(b)); });
  const TestChain a(1, 1, 100);
  put_all(*tier, a);
  EXPECT_TRUE(tier->flush(within(5s)).ok());
  EXPECT_EQ(tier->get(a.keys).take()[0].outcome, Outcome::kFailed);
  EXPECT_EQ(tier->stats().errors, 2u);
  EXPECT_EQ(tier->stats().last_error, "std::bad_alloc");
}

TEST(Front, ClosingWritesWhatIsQueued) {
  Shelf shelf(1 << 20, 0);
  class Borrowed : public Decorator {
   public:
    explicit Borrowed(Backend& to) : Decorator(nullptr), to_(to) {}
    Traits traits() const override { return {.immediate = false, .readers = 1}; }
    Status put(std::span<const Offer> o, Deadline d, std::span<PutOutcome> r) override {
      std::this_thread::sleep_for(20ms);
      return to_.put(o, d, r);
    }

   private:
    Backend& to_;
  };
  {
    Tier tier(std::make_unique<Borrowed>(shelf), {.writer = {.rate = 1000, .batch_bytes = 1}});
    put_all(tier, TestChain(1, 10, 1000));
  }
  EXPECT_EQ(shelf.usage().records, 10u);
}

TEST(Faulty, IsRepeatable) {
  std::vector<int> runs;
  for (int run = 0; run < 2; ++run) {
    auto tier = tier_with({.seed = 7, .fail = 0.2, .flip = 0.2, .drop = 0.2});
    int pattern = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const TestChain c(seed, 1, 500);
      put_all(*tier, c);
      pattern = pattern * 7 + static_cast<int>(tier->get(c.keys).take()[0].outcome);
      pattern &= 0xffffff;
    }
    runs.push_back(pattern);
    EXPECT_GT(tier->stats().errors, 0u);
    EXPECT_GT(tier->stats().damaged, 0u);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace kvasir::store
