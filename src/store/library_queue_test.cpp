// Prompts that are larger than what tiers take at once: queues, limits on the time of a lookup, tiers that lack
// something.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "store/decorator_fixture.hpp"
#include "store/library_fixture.hpp"

namespace kvasir::store {
namespace {

class LibraryQueue : public LibraryTest {
 protected:
  Tier& tier(std::size_t i) { return *library_->tiers()[i]; }
  std::int64_t pages(int n) const { return cache_->rules().sealed_pages(n); }
  std::uint64_t records_of(std::size_t chunks) const { return chunks * (cache_->memory().chunk_bytes + 1024); }
  // Leading chunks of t that tier i has.
  std::int64_t chunks_in(std::size_t i, const Text& t) {
    Chain chain(library_->fingerprint(), "");
    std::int64_t n = 0;
    for (const Found& f :
         tier(i).contains(chain.extend(t.ids), {.deadline = within(std::chrono::seconds(20))}).take()) {
      if (!f) break;
      ++n;
    }
    return n;
  }
};
INSTANTIATE_TEST_SUITE_P(Tiers, LibraryQueue, ::testing::Values("lmdb"));

// A backend that takes nothing while it is held.
class Held : public Decorator {
 public:
  Held(std::unique_ptr<Backend> inner, std::shared_ptr<std::atomic<bool>> held)
      : Decorator(std::move(inner)), held_(std::move(held)) {}
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override {
    held_->wait(true);
    return Decorator::put(offers, deadline, outcomes);
  }
  static void release(std::atomic<bool>& held) {
    held = false;
    held.notify_all();
  }

 private:
  const std::shared_ptr<std::atomic<bool>> held_;
};

// A prompt through a queue that has room for its tail and a part of its chunks.
TEST_P(LibraryQueue, APromptLargerThanTheQueueIsKeptWhole) {
  const Text t = text(kMost);
  const std::uint64_t queue = std::max(cache_->rules().tail_bytes(kMost) + 1024, records_of(4)) + records_of(2);
  const auto held = std::make_shared<std::atomic<bool>>(true);
  open({lmdb_ + "&queue=" + std::to_string(queue)},
       [&](std::unique_ptr<Backend> b) { return std::make_unique<Held>(std::move(b), held); });
  Chain chain(library_->fingerprint(), "");
  Sequence* s = cache_->create();
  for (int at = 0; at < kMost; at += 100) {
    feed(*cache_, s, t.tokens, at, at + 100, 100);
    library_->offer(chain, t.ids, *s, Library::Offering::kChunks, 50);
  }
  EXPECT_GT(chain.given(0), 0);
  EXPECT_LT(chain.given(0), pages(kMost)) << "or this tests nothing";
  Held::release(*held);
  while (chain.given(0) < pages(kMost)) {
    ASSERT_TRUE(tier(0).flush().ok());
    library_->offer(chain, t.ids, *s, Library::Offering::kChunks, 50);
  }
  library_->offer(chain, t.ids, *s, Library::Offering::kLast, 50);
  ASSERT_TRUE(tier(0).flush().ok());
  EXPECT_EQ(tier(0).stats().dropped, 0u);
  cache_->release(s);
  open({lmdb_});
  EXPECT_EQ(search(t.ids).tokens, kMost - 1);
}

// What found no room until the end is counted, and is written when the prompt comes again.
TEST_P(LibraryQueue, WhatFindsNoRoomIsCountedAndComesLater) {
  const Text t = text(kMost);
  const auto held = std::make_shared<std::atomic<bool>>(true);
  open({"ram:?size=64MiB", lmdb_ + "&queue=" + std::to_string(records_of(4))},
       [&](std::unique_ptr<Backend> b) -> std::unique_ptr<Backend> {
         if (b->traits().immediate) return b;
         return std::make_unique<Held>(std::move(b), held);
       });
  Chain chain(library_->fingerprint(), "");
  Sequence* s = cache_->create();
  feed(*cache_, s, t.tokens, 0, kMost, 512);
  library_->offer(chain, t.ids, *s, Library::Offering::kLast, 50);
  const std::int64_t lost = pages(kMost) - chain.given(1);
  Held::release(*held);
  ASSERT_GT(lost, 0) << "or this tests nothing";
  EXPECT_EQ(chain.given(0), pages(kMost));
  ASSERT_TRUE(tier(1).flush().ok());
  EXPECT_GE(tier(1).stats().dropped, static_cast<std::uint64_t>(lost));  // and perhaps the tail
  EXPECT_EQ(chunks_in(1, t), chain.given(1));
  cache_->release(s);
  for (int turn = 0; turn < 10 && chunks_in(1, t) < pages(kMost); ++turn) EXPECT_EQ(compute(t, kMost), kMost - 1);
  EXPECT_EQ(chunks_in(1, t), pages(kMost));
}

// Tiers that lost something get it from those that have it, whichever is the faster.
TEST_P(LibraryQueue, EveryTierGetsWhatItLacks) {
  const Text t = text(kMost);
  for (const std::size_t poor : {std::size_t{0}, std::size_t{1}}) {
    open({"ram:?size=64MiB", lmdb_});
    compute(t, kMost);
    Chain chain(library_->fingerprint(), "");
    const auto keys = chain.extend(t.ids);
    ASSERT_TRUE(tier(poor).erase(keys.subspan(2)).ok());
    ASSERT_EQ(chunks_in(poor, t), 2);
    EXPECT_EQ(compute(t, kMost), kMost - 1);
    EXPECT_EQ(chunks_in(poor, t), pages(kMost));
    EXPECT_EQ(tier(0).stats().dropped + tier(1).stats().dropped, 0u);
  }
}

// What a tier has is not given to it again.
TEST_P(LibraryQueue, NothingIsGivenTwice) {
  const Text t = text(kMost);
  open({lmdb_});
  compute(t, kMost);
  open({lmdb_});
  EXPECT_EQ(compute(t, kMost), kMost - 1);
  EXPECT_LE(tier(0).stats().inserts + tier(0).stats().kept, 1u) << "the tail at most";
}

// A backend that fails, and says what it was asked to keep.
class Broken : public Decorator {
 public:
  Broken(std::unique_ptr<Backend> inner, std::shared_ptr<std::atomic<int>> chunks)
      : Decorator(std::move(inner)), chunks_(std::move(chunks)) {}
  Status contains(std::span<const Key> /*keys*/, Deadline /*deadline*/, std::span<Outcome> outcomes) override {
    std::fill(outcomes.begin(), outcomes.end(), Outcome::kFailed);
    return {"broken"};
  }
  Status put(std::span<const Offer> offers, Deadline /*deadline*/, std::span<PutOutcome> outcomes) override {
    for (const Offer& o : offers) *chunks_ += o.head.kind == Kind::kChunk ? 1 : 0;
    std::fill(outcomes.begin(), outcomes.end(), PutOutcome::kFailed);
    return {"broken"};
  }

 private:
  const std::shared_ptr<std::atomic<int>> chunks_;
};

// A tier that cannot say what it has is not given everything with every request.
TEST_P(LibraryQueue, ATierThatDoesNotAnswerIsNotGivenWhatAnotherHas) {
  const Text t = text(kMost);
  const auto chunks = std::make_shared<std::atomic<int>>(0);
  open({"ram:?size=64MiB", lmdb_}, [&](std::unique_ptr<Backend> b) -> std::unique_ptr<Backend> {
    if (b->traits().immediate) return b;
    return std::make_unique<Broken>(std::move(b), chunks);
  });
  EXPECT_EQ(compute(t, kMost), 0);
  EXPECT_EQ(*chunks, pages(kMost));
  EXPECT_EQ(compute(t, kMost), kMost - 1);
  EXPECT_EQ(*chunks, pages(kMost));
}

// A backend whose chunks come when the search's own time is over.
class LateChunks : public Decorator {
 public:
  LateChunks(std::unique_ptr<Backend> inner, std::shared_ptr<std::atomic<Deadline>> until)
      : Decorator(std::move(inner)), until_(std::move(until)) {}
  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override {
    if (++gets_ > 1) std::this_thread::sleep_until(until_->load());
    return Decorator::get(keys, deadline, answers);
  }

 private:
  const std::shared_ptr<std::atomic<Deadline>> until_;
  std::atomic<int> gets_{0};  // the first one is of the tail
};

// How long chunks may take depends on what they save.
TEST_P(LibraryQueue, ChunksAreWaitedForAsLongAsTheyAreWorth) {
  const Text t = text(kMost);
  const auto ids = std::span(t.ids);
  // 1200 tokens: a twentieth of 1200 s, or of a millisecond.
  for (const float microseconds : {1e6f, 1.0f}) {
    std::filesystem::remove_all(folder_);
    open({lmdb_});
    Chain chain(library_->fingerprint(), "");
    Sequence* s = cache_->create();
    feed(*cache_, s, t.tokens, 0, kMost, 512);
    library_->offer(chain, ids, *s, Library::Offering::kLast, microseconds);
    cache_->release(s);
    auto until = std::make_shared<std::atomic<Deadline>>();
    open({lmdb_}, [&](std::unique_ptr<Backend> b) { return std::make_unique<LateChunks>(std::move(b), until); });
    const Deadline deadline = within(std::chrono::seconds(2));
    *until = deadline + std::chrono::milliseconds(100);
    std::promise<void> over;
    const auto search = library_->search("", ids, deadline, [&] { over.set_value(); });
    over.get_future().wait();
    EXPECT_EQ(search->take().tokens, microseconds > 1 ? kMost - 1 : 0);
  }
}

}  // namespace
}  // namespace kvasir::store
