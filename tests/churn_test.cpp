// A store under churn: conversations that together need four times the budget of every tier, for as long as
// KVASIR_CHURN_SECONDS says (default: a few seconds). Memory stays within its plan, nothing leaks, answers stay those
// without reuse, and at the end every book is balanced.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/rss.hpp"
#include "base/splitmix.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "store/open.hpp"

namespace kvasir::run {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kRam = 16 * kMib, kDisk = 32 * kMib, kQueue = 8 * kMib;
constexpr int kClients = 3;
constexpr int kTurns = 4;
constexpr double kReport = 60;  // seconds
constexpr int kTurnTokens = 230;

class Waiter final : public Listener {
 public:
  void pieces(std::span<const Piece> pieces) override {
    for (const Piece& p : pieces)
      if (p.token.id >= 0) ids_.push_back(p.token.id);
  }
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
    done_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  std::vector<std::int32_t> ids_;  // after wait
  Outcome outcome_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

class Churn : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions o;
    o.model = KVASIR_SOURCE_DIR "/models/kvasir-books-4m.gguf";
    o.ctx = 1024;
    o.threads = 2;
    engine_ = std::make_unique<Engine>(o, Engine::Needs{.sequences = 4, .pool_tokens = 4096, .logits = 4});
    open();
  }
  void TearDown() override {
    close();
    std::filesystem::remove_all(folder_);
  }
  void open() {
    std::vector<std::shared_ptr<store::Tier>> tiers;
    tiers.push_back(store::open_tier("ram:?size=" + std::to_string(kRam)));
    tiers.push_back(store::open_tier(disk_spec() + "&queue=" + std::to_string(kQueue)));
    library_ = std::make_unique<store::Library>(engine_->cache(), store::fingerprint_of(describe_cache(*engine_)),
                                                std::move(tiers));
    scheduler_ = std::make_unique<Scheduler>(*engine_, SchedulerOptions{.running = 4}, "churn", library_.get());
  }
  void close() {
    scheduler_.reset();
    library_.reset();
  }
  std::string disk_spec() const { return "lmdb:" + folder_ + "?timeout=5s&size=" + std::to_string(kDisk); }

  // Turn `turn` of a conversation that only its number decides: every turn begins with all of the one before.
  std::vector<std::int32_t> prompt(std::uint64_t conversation, int turn) const {
    std::vector<std::int32_t> ids;
    std::uint64_t state = conversation * 7919 + 1;
    for (int i = 0; i < turn * kTurnTokens; ++i) ids.push_back(static_cast<std::int32_t>(3 + splitmix64(state) % 1000));
    return ids;
  }
  std::shared_ptr<Waiter> ask(const std::vector<std::int32_t>& ids, bool reuse) {
    ServiceRequest r;
    r.request.prompt = ids;
    r.request.max_tokens = 8;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.reuse = reuse;
    auto waiter = std::make_shared<Waiter>();
    scheduler_->submit(std::move(r), waiter);
    waiter->wait();
    return waiter;
  }
  void talk(std::uint64_t conversation, bool compare) {
    for (int turn = 1; turn <= kTurns; ++turn) {
      const auto ids = prompt(conversation, turn);
      const auto with = ask(ids, true);
      ++requests_;
      if (!with->outcome_.error.empty()) ++failed_;
      if (!compare) continue;
      ++compared_;
      if (ask(ids, false)->ids_ != with->ids_) ++wrong_;
    }
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-churn-" + std::to_string(getpid());
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<store::Library> library_;
  std::unique_ptr<Scheduler> scheduler_;
  std::atomic<int> requests_{0}, compared_{0}, wrong_{0}, failed_{0};
};

// Every record that the tier lists can be read, with its checksum, and the list is what the books say.
void expect_balanced(store::Tier& tier) {
  std::vector<store::Key> keys;
  std::uint64_t bytes = 0;
  ASSERT_TRUE(tier.list([&](const store::Listed& l) {
                    keys.push_back(l.key);
                    bytes += l.bytes;
                    return true;
                  })
                  .ok());
  const store::Stats s = tier.stats();
  EXPECT_EQ(keys.size(), s.usage.records) << tier.name();
  EXPECT_LE(bytes, s.usage.bytes) << tier.name();
  EXPECT_LE(s.usage.bytes, s.usage.budget) << tier.name();
  EXPECT_GT(keys.size(), 10u) << tier.name();
  for (std::size_t i = 0; i < keys.size(); i += 8) {
    const auto part = std::span(keys).subspan(i, std::min<std::size_t>(8, keys.size() - i));
    for (const store::Found& f : tier.get(part, {.deadline = store::within(std::chrono::seconds(30))}).take())
      EXPECT_TRUE(f) << tier.name() << ": outcome " << static_cast<int>(f.outcome);
  }
  EXPECT_EQ(tier.stats().damaged, 0u) << tier.name();
}

TEST_F(Churn, StaysWithinItsPlan) {
  const char* given = std::getenv("KVASIR_CHURN_SECONDS");
  const double seconds = given ? std::atof(given) : 8;
  std::vector<std::thread> first;  // so many at once that all pages of the pool that will be used are there
  for (int c = 0; c < kClients; ++c) first.emplace_back([&] { ask(prompt(1, kTurns), false); });
  for (std::thread& t : first) t.join();
  const Rss start = process_rss();
  const std::uint64_t plan = start.anonymous + kRam + kQueue;

  // How many conversations are four times the disk's budget, the larger one.
  const store::Stats before = library_->tiers()[0]->stats();
  talk(0, true);
  const store::Stats one = library_->tiers()[0]->stats();
  const std::uint64_t bytes = one.insert_bytes - before.insert_bytes;
  ASSERT_GT(bytes, 0u);
  const std::uint64_t conversations = 4 * kDisk / bytes + 1;

  const double begin = steady_seconds(), end = begin + seconds;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c)
    clients.emplace_back([&, c] {
      std::uint64_t state = 100 + static_cast<std::uint64_t>(c);
      for (std::uint64_t n = 0; steady_seconds() < end || n * kClients < conversations; ++n) {
        const std::uint64_t k = n * kClients + static_cast<std::uint64_t>(c);
        // In turn, so that a short run churns too; between them one that went not long ago, or any.
        talk(k % conversations, n % 16 == 1);
        const std::uint64_t r = splitmix64(state);
        if (r % 2 == 0) talk((k + conversations - 3 - r / 2 % 6) % conversations, n % 16 == 2);
        if (r % 8 == 1) talk(r / 8 % conversations, false);
      }
    });
  Rss most;
  std::uint64_t first_half = 0, second_half = 0;
  std::atomic<bool> over{false};
  std::thread sampler([&] {
    for (double last = begin; !over; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
      const Rss now = process_rss();
      most.current = std::max(most.current, now.current);
      most.anonymous = std::max(most.anonymous, now.anonymous);
      most.file = std::max(most.file, now.file);
      std::uint64_t& half = steady_seconds() < begin + seconds / 2 ? first_half : second_half;
      half = std::max(half, now.anonymous);
      if (steady_seconds() - last >= kReport) {
        last = steady_seconds();
        std::printf("%5.0f s: %d requests, anonymous %.1f MiB, resident %.1f MiB\n", last - begin, requests_.load(),
                    static_cast<double>(now.anonymous) / kMib, static_cast<double>(now.current) / kMib);
        std::fflush(stdout);
      }
    }
  });
  for (std::thread& t : clients) t.join();
  over = true;
  sampler.join();

  ASSERT_TRUE(scheduler_->drain(60));
  for (const auto& tier : library_->tiers()) {
    EXPECT_TRUE(tier->flush().ok());
    const store::Stats s = tier->stats();
    std::printf(
        "%s: %llu records, %.1f of %.1f MiB; written %.1f MiB, evicted %llu, hits %llu, misses %llu, dropped %llu, "
        "refused %llu\n",
        tier->name().substr(0, tier->name().find(':')).c_str(), s.usage.records / 1ull,
        static_cast<double>(s.usage.bytes) / kMib, static_cast<double>(s.usage.budget) / kMib,
        static_cast<double>(s.insert_bytes) / kMib, s.usage.evictions / 1ull, s.hits / 1ull, s.misses / 1ull,
        s.dropped / 1ull, s.refused / 1ull);
    EXPECT_GT(s.usage.evictions, 20u) << tier->name();
    EXPECT_GT(s.hits, 0u) << tier->name();
    EXPECT_EQ(s.errors, 0u) << tier->name() << ": " << s.last_error;
    expect_balanced(*tier);
  }
  std::printf(
      "%.0f s, %llu conversations, %d requests, %d compared; start %.1f MiB, plan %.1f, most anonymous %.1f (first "
      "half %.1f, second %.1f), most resident %.1f, of that files %.1f\n",
      steady_seconds() - begin, conversations / 1ull, requests_.load(), compared_.load(),
      static_cast<double>(start.anonymous) / kMib, static_cast<double>(plan) / kMib,
      static_cast<double>(most.anonymous) / kMib, static_cast<double>(first_half) / kMib,
      static_cast<double>(second_half) / kMib, static_cast<double>(most.current) / kMib,
      static_cast<double>(most.file) / kMib);
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(compared_, 0);
  engine_->cache().check_integrity();
  EXPECT_EQ(scheduler_->stats().kv_bytes, 0u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow memory counts as resident
  EXPECT_LE(static_cast<double>(most.anonymous), 1.05 * static_cast<double>(plan));
  // Pages of the database that the system has mapped are its to take back; there are no more of them than it is large.
  EXPECT_LE(static_cast<double>(most.current), 1.05 * static_cast<double>(plan + start.file + kDisk));
  // A leak would go on. (The first half of a short run is not yet full.)
  if (seconds >= 60) {
    EXPECT_LE(static_cast<double>(second_half), 1.03 * static_cast<double>(first_half));
  }
#endif

  // And what the disk has is there for the next process.
  close();
  const auto again = store::open_tier(disk_spec());
  expect_balanced(*again);
}

}  // namespace
}  // namespace kvasir::run
