#include "store/library.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "store/decorator_fixture.hpp"
#include "store/faulty_fixture.hpp"
#include "store/library_fixture.hpp"
#include "store/tail.hpp"

namespace kvasir::store {
namespace {

INSTANTIATE_TEST_SUITE_P(Tiers, LibraryTest, ::testing::Values("ram", "lmdb"));

TEST_P(LibraryTest, AConversationGoesOnWhereItEnded) {
  const Text t = text(kMost);
  int before = 0;
  for (const int n : {1, 2, 17, 90, 128, 129, 300, 301, 555, 1152, 1200}) {
    EXPECT_EQ(compute(t, n), before) << n;
    before = n;
  }
  // The same prompt again: all but the last token, which gives the logits.
  EXPECT_EQ(compute(t, kMost), kMost - 1);
}

TEST_P(LibraryTest, TheSamePromptAgainLacksOnlyItsLastToken) {
  for (const int n : {2, 16, 17, 18, 33, 64, 65, 112, 113, 127, 128, 129, 130, 145, 193, 256, 257, 385}) {
    reopen(("n " + std::to_string(n)).c_str());
    const Text t = text(n);
    EXPECT_EQ(compute(t, n), 0) << n;
    // The tail of the first token of a page ends in a page of its own: what is raw before it is another tail's.
    EXPECT_EQ(search(t.ids).tokens, n % 128 == 1 ? 0 : n - 1) << n;
  }
}

TEST_P(LibraryTest, ItSurvivesARestartOnDisk) {
  const Text t = text(700);
  compute(t, 600);
  reopen();
  EXPECT_EQ(compute(t, 700), GetParam() == "ram" ? 0 : 600);
  reopen("another model");
  EXPECT_EQ(compute(t, 700), 0);
}

TEST_P(LibraryTest, AnAnswerThatIsTokenisedDifferentlyIsCutInItsPage) {
  compute(text(620), 620);
  EXPECT_EQ(compute(text(650, 615), 650), 615);  // the last 5 tokens came back as others
}

// Two texts part; the second one leaves a tail there, so the third one starts from it.
TEST_P(LibraryTest, WhereTextsPartATailIsLeft) {
  compute(text(700), 700);
  const Text second = text(700, 400, 1);
  EXPECT_EQ(search(second.ids).nearest, 400);
  EXPECT_EQ(compute(second, 700, "", 400), 0);
  EXPECT_EQ(compute(text(700, 400, 2), 700), 400);
  EXPECT_EQ(search(text(700, 400, 3).ids).nearest, 400);
}

// Pages that need no tail: wherever texts part, all whole pages in front of it are restored.
TEST_P(LibraryTest, LosslessPagesAreRestoredUpToWhereTextsPart) {
  const kv::CacheShape plain{{kShape.layers[0], kShape.layers[2]}};
  library_.reset();
  cache_ =
      std::make_unique<Cache>(team_, plain, CacheOptions{.max_tokens = 8192, .max_sequences = 4, .step_tokens = kMost});
  reopen();
  ASSERT_TRUE(cache_->rules().pages_suffice());
  const std::vector<std::int32_t> ids = text(kMost).ids;
  const Tokens tokens = random_tokens(plain, kMost, 3);
  Chain chain(library_->fingerprint(), "");
  Sequence* s = cache_->create();
  feed(*cache_, s, tokens, 0, kMost, 100);
  library_->offer(chain, ids, *s, Library::Offering::kChunks, 50);
  EXPECT_EQ(search(ids).tokens, 0);  // without the sinks nothing is whole
  library_->offer_tail(chain, ids, *s, 17, 50);
  for (const auto& tier : library_->tiers()) ASSERT_TRUE(tier->flush().ok());
  for (const int parting : {127, 128, 300, 383, 384, 700, 1000}) {
    std::vector<std::int32_t> other = ids;
    for (int i = parting; i < kMost; ++i) other[static_cast<std::size_t>(i)] += 5000;
    const Known known = search(other);
    const std::int64_t whole = parting / 128 * 128;
    EXPECT_EQ(known.tokens, std::max<std::int64_t>(17, whole)) << parting;
    EXPECT_EQ(known.runs.size(), 1u);
    EXPECT_EQ(known.runs.back().end, known.tokens);
    Chain again(library_->fingerprint(), "");
    Sequence* restored = library_->restore(known, other, again);
    ASSERT_TRUE(restored);
    Sequence* alone = cache_->create();
    feed(*cache_, alone, tokens, 0, static_cast<int>(known.tokens), 512);
    EXPECT_EQ(cache_->bytes().digest(*restored), cache_->bytes().digest(*alone)) << parting;
    cache_->release(restored);
    cache_->release(alone);
  }
  // A chunk in the middle is gone: what is in front of it is as good as before.
  ASSERT_TRUE(library_->tiers()[0]->erase(chain.extend(ids).subspan(4, 1)).ok());
  EXPECT_EQ(search(ids).tokens, 4 * 128);
  cache_->release(s);
  cache_->check_integrity();
}

TEST_P(LibraryTest, TenantsNeverMeet) {
  const Text t = text(400);
  compute(t, 300, "a");
  EXPECT_EQ(compute(t, 400, "b"), 0);
  EXPECT_EQ(search(t.ids, "c").nearest, 0);
  EXPECT_EQ(compute(t, 400, "a"), 300);
}

TEST_P(LibraryTest, WhatIsMissingIsComputed) {
  const Text t = text(kMost);
  compute(t, 300);
  compute(t, 1100);
  // A chunk in the middle goes: the tail behind it is of no use, the earlier one is.
  Chain chain(library_->fingerprint(), "");
  const auto keys = chain.extend(t.ids);
  ASSERT_TRUE(library_->tiers()[0]->erase(keys.subspan(4, 1)).ok());
  const Known known = search(t.ids);
  EXPECT_EQ(known.tokens, 300);
  EXPECT_EQ(known.chunks_present, 4);
  EXPECT_EQ(compute(t, kMost), 300);
}

// Bytes that lie under a key of other tokens are not believed, wherever the tokens differ.
TEST_P(LibraryTest, RecordsUnderWrongKeysAreMisses) {
  const Text t = text(300);
  compute(t, 300);
  Tier& tier = *library_->tiers()[0];
  const auto key_of = [&](std::span<const std::int32_t> ids, bool tail) {
    Chain chain(library_->fingerprint(), "");
    chain.extend(ids);
    return tail ? key_of_tail(chain.before(2), ids.subspan(256), 32) : chain.before(1);
  };
  const auto move = [&](const Key& from, const Key& to) {
    const std::vector<Found> found = tier.get(std::span(&from, 1)).take();
    ASSERT_TRUE(found[0]);
    tier.put(to, copy_bytes(found[0].bytes.bytes));
    ASSERT_TRUE(tier.flush().ok());
  };
  ASSERT_EQ(search(t.ids).tokens, 299);
  // Page 1 is raw at 300 tokens, page 0 is sealed. Another token in either of them, the same ones behind it.
  for (const std::size_t place : {std::size_t{200}, std::size_t{100}}) {
    std::vector<std::int32_t> other = t.ids;
    other[place] += 1;
    EXPECT_EQ(search(other).tokens, 0);
    if (place < 128) move(key_of(t.ids, false), key_of(other, false));
    move(key_of(t.ids, true), key_of(other, true));
    EXPECT_EQ(search(other).tokens, 0) << place;
  }
}

// The tokens of a record may be the prompt's although it was computed behind others: then its parent is another.
TEST_P(LibraryTest, RecordsOfOtherParentsAreMisses) {
  const Text t = text(500);
  compute(t, 500);
  Tier& tier = *library_->tiers()[0];
  std::vector<std::int32_t> other = t.ids;
  other[100] += 1;
  Chain mine(library_->fingerprint(), ""), theirs(library_->fingerprint(), "");
  mine.extend(t.ids);
  theirs.extend(other);
  const auto last = std::span(other).subspan(384);
  // The record of `from`, under another key and with a parent that is `parent`, or its own.
  const auto put = [&](const Key& from, const Key& to, std::span<const std::int32_t> ids, const Key* parent) {
    const std::vector<Found> found = tier.get(std::span(&from, 1)).take();
    ASSERT_TRUE(found[0]);
    RecordHead head = found[0].record.head;
    if (parent) head.parent = *parent;
    const std::span<const std::byte> payload[] = {found[0].record.payload};
    tier.put(to, make_record(head, ids, payload));
    ASSERT_TRUE(tier.flush().ok());
  };
  const auto page = [&](std::size_t i) { return std::span(other).subspan(128 * i, 128); };
  const auto put_chunk = [&](const Key* parent) { put(mine.before(2), theirs.before(2), page(1), parent); };
  const auto put_tail = [&](const Key* parent) {
    put(key_of_tail(mine.before(3), last, 112), key_of_tail(theirs.before(3), last, 112), std::span(other).subspan(256),
        parent);
  };
  put(mine.before(1), theirs.before(1), page(0), nullptr);
  for (const bool chunk : {false, true}) {
    for (const bool tail : {false, true}) {
      put_chunk(chunk ? &theirs.before(1) : nullptr);
      put_tail(tail ? &theirs.before(2) : nullptr);
      EXPECT_EQ(search(other).tokens, chunk && tail ? 499 : 0) << chunk << " " << tail;
    }
  }
}

// A pin that fails leaves nothing behind: neither records that stay, nor a pin that could be ended.
TEST_P(LibraryTest, APinThatFailsPinsNothing) {
  const Text t = text(kMost);
  const std::vector<std::int64_t> ends{300};
  const auto pin = [&](int n, std::chrono::seconds ttl) {
    return library_->pin("", std::span(t.ids).first(static_cast<std::size_t>(n)), ends, ttl).ok();
  };
  const auto unpin = [&](int n) { return library_->unpin("", std::span(t.ids).first(static_cast<std::size_t>(n))); };
  const auto pinned = [&] { return library_->tiers()[0]->stats().usage.pinned_bytes; };
  compute(t, 300);
  compute(t, kMost);
  if (GetParam() == "lmdb") {
    EXPECT_FALSE(pin(300, std::chrono::hours(1)));
    EXPECT_FALSE(unpin(300));
    return;
  }
  ASSERT_TRUE(pin(300, std::chrono::hours(1)));
  const std::uint64_t enough = pinned();
  // Room for 300 tokens with their tail, none for the chunks behind them.
  reopen("test", "&pins=" + std::to_string(enough + 1));
  compute(t, 300);
  compute(t, kMost);
  EXPECT_FALSE(pin(kMost, std::chrono::hours(1)));
  EXPECT_EQ(pinned(), 0u);
  EXPECT_FALSE(unpin(kMost));
  ASSERT_TRUE(pin(300, std::chrono::hours(1)));
  EXPECT_FALSE(pin(kMost, std::chrono::hours(2)));
  EXPECT_EQ(pinned(), enough) << "of the prompt that was pinned before";
  EXPECT_TRUE(unpin(300));
  EXPECT_EQ(pinned(), 0u);
}

// An unpin that stands still before the tier hears of it, until a pin has ended or a while has passed.
struct Gate {
  std::atomic<bool> closed{false};
  std::promise<void> reached, pinned;
};
class LateUnpin : public Decorator {
 public:
  LateUnpin(std::unique_ptr<Backend> inner, std::shared_ptr<Gate> gate)
      : Decorator(std::move(inner)), gate_(std::move(gate)) {}
  Status unpin(std::span<const Key> keys) override {
    if (gate_->closed.exchange(false)) {
      gate_->reached.set_value();
      gate_->pinned.get_future().wait_for(std::chrono::milliseconds(200));
    }
    return Decorator::unpin(keys);
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

// Servers unpin in their own threads while the engine's thread pins.
TEST_P(LibraryTest, AnUnpinLeavesWhatAPinOfTheSameMomentNeeds) {
  if (GetParam() != "ram") GTEST_SKIP() << "this tier pins nothing";
  const auto gate = std::make_shared<Gate>();
  open({"ram:?size=64MiB"},
       [&](std::unique_ptr<Backend> ram) { return std::make_unique<LateUnpin>(std::move(ram), gate); });
  const Text t = text(kMost);
  const std::vector<std::int64_t> no_tails;
  const auto first = [&](int n) { return std::span(t.ids).first(static_cast<std::size_t>(n)); };
  const auto pinned = [&] { return library_->tiers()[0]->stats().usage.pinned_bytes; };
  compute(t, kMost);
  ASSERT_TRUE(library_->pin("", first(kMost), no_tails, std::chrono::hours(1)).ok());
  const std::uint64_t all = pinned();
  ASSERT_TRUE(library_->unpin("", first(kMost)));
  ASSERT_TRUE(library_->pin("", first(300), no_tails, std::chrono::hours(1)).ok());
  EXPECT_LT(pinned(), all);
  gate->closed = true;
  std::thread other([&] { EXPECT_TRUE(library_->unpin("", first(300))); });
  gate->reached.get_future().wait();
  EXPECT_TRUE(library_->pin("", first(kMost), no_tails, std::chrono::hours(1)).ok());
  gate->pinned.set_value();
  other.join();
  EXPECT_EQ(pinned(), all);
  EXPECT_TRUE(library_->unpin("", first(kMost)));
  EXPECT_EQ(pinned(), 0u);
}

// Who gives up must not be called afterwards: it may be gone.
TEST_P(LibraryTest, AnAbandonedSearchCallsNobody) {
  open({"ram:?size=1MiB"},
       [](std::unique_ptr<Backend> ram) { return faulty(std::move(ram), {.delay = std::chrono::milliseconds(100)}); });
  const auto deadline = within(std::chrono::seconds(20));
  std::atomic<int> calls{0};
  const auto given_up = library_->search("", text(200).ids, deadline, [&] { calls += 100; });
  const auto waited_for = library_->search("", text(200).ids, deadline, [&] { ++calls; });
  given_up->abandon();
  while (!waited_for->ready() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(waited_for->take().tokens, 0);
  EXPECT_EQ(calls, 1);
}

TEST_P(LibraryTest, NothingStoredNothingFound) {
  EXPECT_EQ(search({1}).tokens, 0);
  EXPECT_EQ(search({1, 2, 3}).tokens, 0);
  EXPECT_EQ(search(text(1000).ids).tokens, 0);
}

}  // namespace
}  // namespace kvasir::store
