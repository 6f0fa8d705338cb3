// Conversations on a scheduler with a library: what is reused, and that it changes nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.hpp"
#include "run/reuse_fixture.hpp"
#include "run/scheduler.hpp"
#include "store/decorator_fixture.hpp"
#include "store/faulty_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

class Reuse : public ::testing::TestWithParam<const char*> {
 protected:
  ~Reuse() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = ::testing::TempDir() + "kvasir-reuse-" + std::to_string(getpid());
  const std::string disk_ = "lmdb:" + folder_ + "?size=256MiB";
};
INSTANTIATE_TEST_SUITE_P(Codecs, Reuse, ::testing::Values("exact", "balanced"));

// Answers are those of a file: all that is reused was prompt, so every bit is the same as without reuse.
TEST_P(Reuse, RecordedConversationsKeepEveryBit) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  for (std::size_t c = 0; c < 3; ++c) {
    std::vector<std::int32_t> prompt;
    std::int64_t before = 0;
    for (const auto& turn : turns(server.tokenizer(), 8, 200 * c)) {
      append(prompt, turn);
      const Reply cached = server.ask(prompt, 6, true);
      const Reply plain = server.ask(prompt, 6, false);
      expect_equal_bits(cached, plain);
      EXPECT_EQ(plain.outcome.receipt.reused_tokens, 0);
      EXPECT_GE(cached.outcome.receipt.reused_tokens, before);
      if (before > 0) {
        EXPECT_EQ(cached.outcome.receipt.spans.front().source, "ram");
      }
      before = static_cast<std::int64_t>(prompt.size());
    }
  }
}

// Answers are the model's own: the next turn goes on behind them, whatever page they end in.
TEST_P(Reuse, GeneratedConversationsReuseTheWholeTurn) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  for (std::size_t c = 0; c < 2; ++c) {
    std::vector<std::int32_t> prompt;
    std::int64_t before = 0;
    std::size_t equal = 0, all = 0;
    for (const auto& turn : turns(server.tokenizer(), 7, 300 * c)) {
      append(prompt, turn);
      const Reply cached = server.ask(prompt, 40, true);
      const Reply plain = server.ask(prompt, 40, false);
      equal += cached.ids() == plain.ids();
      ++all;
      if (before > 0 && plain.tokens[0].id == cached.tokens[0].id) {
        EXPECT_EQ(cached.tokens[0].logprob, plain.tokens[0].logprob);
      }
      EXPECT_EQ(cached.outcome.receipt.reused_tokens, before);
      append(prompt, cached.ids());
      before = static_cast<std::int64_t>(prompt.size()) - 1;  // the last token was never fed
    }
    EXPECT_EQ(equal, all);  // decode and prefill share their arithmetic
  }
}

TEST_P(Reuse, ARestartAndAnotherProcessFindWhatIsOnDisk) {
  std::vector<std::int32_t> prompt;
  std::int64_t before = 0;
  for (int life = 0; life < 3; ++life) {
    Server server(GetParam(), {"ram:?size=64MiB", disk_});
    append(prompt,
           turns(server.tokenizer(), 3, 100 + 500 * static_cast<std::size_t>(life))[static_cast<std::size_t>(life)]);
    append(prompt, turns(server.tokenizer(), 4, 900)[3]);
    const Reply cached = server.ask(prompt, 5, true);
    expect_equal_bits(cached, server.ask(prompt, 5, false));
    EXPECT_GE(cached.outcome.receipt.reused_tokens, before);
    if (before > 0) {
      EXPECT_EQ(cached.outcome.receipt.spans.front().source, "lmdb");
      EXPECT_GT(cached.outcome.receipt.loaded_bytes, 0u);
    }
    before = static_cast<std::int64_t>(prompt.size());
    server.flush();
  }
}

// Builds that did not feed rounding errors back sealed other bytes in pages of the same format.
TEST(ReuseOfTiny, PagesOfAnotherRoundingAreNotRead) {
  const std::string folder = ::testing::TempDir() + "kvasir-reuse-tiny-" + std::to_string(getpid());
  const auto older = [](std::string text) {
    const std::size_t line = text.find("key metrics ");
    EXPECT_NE(line, std::string::npos) << text;
    return text.erase(line, text.find('\n', line) + 1 - line);
  };
  const auto asked = [&](const std::function<std::string(std::string)>& described) {
    Server server("tiny", {"lmdb:" + folder + "?size=256MiB"}, {}, kBooks, {}, described);
    std::vector<std::int32_t> prompt;
    for (const auto& turn : turns(server.tokenizer(), 4, 100)) append(prompt, turn);
    const Reply reply = server.ask(prompt, 4, true);
    expect_equal_bits(reply, server.ask(prompt, 4, false));
    server.flush();
    return reply.outcome.receipt.reused_tokens;
  };
  const auto same = [](std::string text) { return text; };
  EXPECT_EQ(asked(older), 0);
  EXPECT_GT(asked(older), 0);  // the pages are there
  EXPECT_EQ(asked(same), 0);
  EXPECT_GT(asked(same), 0);
  std::filesystem::remove_all(folder);
}

// A question about a document, then another: the second starts a little before where they part, the third just there.
TEST_P(Reuse, ALongDocumentIsFoundByTheNextQuestion) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  std::vector<std::int32_t> document = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  document.resize(2400);
  std::vector<std::int64_t> reused;
  for (std::int32_t question = 0; question < 3; ++question) {
    std::vector<std::int32_t> prompt = document;
    for (int i = 0; i < 100; ++i) prompt.push_back(300 + 7 * question + i);
    const Reply cached = server.ask(prompt, 3, true);
    expect_equal_bits(cached, server.ask(prompt, 3, false));
    reused.push_back(cached.outcome.receipt.reused_tokens);
  }
  EXPECT_EQ(reused[0], 0);
  // Of 2400: all whole pages, or the last page's beginning that lies 128 tokens before the end or earlier.
  EXPECT_EQ(reused[1], std::string_view(GetParam()) == "exact" ? 2304 : 2304 + 16);
  EXPECT_EQ(reused[2], 2400);
  // Another cut of the document: at most four times what is missing is computed again.
  for (const std::int64_t cut : {2300, 2000, 1900, 1500, 700}) {
    std::vector<std::int32_t> prompt(document.begin(), document.begin() + cut);
    prompt.push_back(5);
    const Reply cached = server.ask(prompt, 2, true);
    EXPECT_GE(cached.outcome.receipt.reused_tokens, 2500 - 4 * (2500 - cut) - 128) << cut;
    expect_equal_bits(cached, server.ask(prompt, 2, false));
  }
}

// Two prompts part anywhere: the second has all whole pages in front of that where pages need no tail, else it begins
// at most 1,024 tokens before; so does one that parts inside a long answer.
TEST(ReuseOfBeginnings, PromptsThatPartAnywhereShareWhatIsEqual) {
  for (const std::string kv : {"f16", "balanced", "kivi2"}) {
    SCOPED_TRACE(kv);
    EngineOptions named;
    named.kv = kv;
    const bool raw = as_the_suite_says(named).kv == "f16";
    Server server(
        kv, {"ram:?size=512MiB"}, {}, kBooks, {}, [](std::string text) { return text; },
        [](EngineOptions& o, Engine::Needs& needs) { o.ctx = 9000, needs.pool_tokens = 20000; });
    const auto prompt = [](std::int64_t equal, std::int64_t more, std::int32_t variant) {
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < equal; ++i) ids.push_back(static_cast<std::int32_t>(300 + i * 7 % 1000));
      for (std::int64_t i = 0; i < more; ++i) ids.push_back(static_cast<std::int32_t>(1400 + (i * 5 + variant) % 999));
      return ids;
    };
    for (std::int32_t variant = 0; variant < 3; ++variant) {
      const Reply reply = server.ask(prompt(5300, 3000, variant), 2, true);
      EXPECT_GE(reply.outcome.receipt.reused_tokens, variant == 0 ? 0 : 5000);
    }
    for (const std::int64_t equal : {700, 1003, 2100, 4500, 5290}) {
      const std::vector<std::int32_t> parted = prompt(equal, 600, 77);
      const Reply reply = server.ask(parted, 2, true);
      const std::int64_t reused = reply.outcome.receipt.reused_tokens;
      EXPECT_GE(reused, raw ? equal / 128 * 128 : equal - 1023);
      EXPECT_LE(reused, equal);
      expect_equal_bits(reply, server.ask(parted, 2, false));
    }
    std::vector<std::int32_t> turn = prompt(100, 0, 5);
    append(turn, server.ask(turn, 1500, true).ids());
    turn.resize(1400);
    append(turn, prompt(0, 50, 3));
    EXPECT_GE(server.ask(turn, 2, true).outcome.receipt.reused_tokens, raw ? 1280 : 912);
  }
}

// One too short to leave a tail in its middle.
TEST_P(Reuse, AShortDocumentIsFoundFromTheThirdRequestOn) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  std::vector<std::int32_t> document = turns(server.tokenizer(), 9, 100)[3];
  append(document, turns(server.tokenizer(), 8, 700)[7]);
  std::vector<Outcome> outcomes;
  for (std::int32_t question = 0; question < 3; ++question) {
    std::vector<std::int32_t> prompt = document;
    for (int i = 0; i < 50; ++i) prompt.push_back(300 + 7 * question + i);
    const Reply cached = server.ask(prompt, 3, true);
    expect_equal_bits(cached, server.ask(prompt, 3, false));
    outcomes.push_back(cached.outcome);
  }
  EXPECT_NE(outcomes[0].receipt.miss.find("no earlier prompt"), std::string::npos) << outcomes[0].receipt.miss;
  EXPECT_NE(outcomes[1].receipt.miss.find("from token " + std::to_string(document.size())), std::string::npos)
      << outcomes[1].receipt.miss;
  EXPECT_EQ(outcomes[0].receipt.miss_token, -1);
  EXPECT_EQ(outcomes[1].receipt.miss_token, static_cast<std::int64_t>(document.size()));
  EXPECT_EQ(outcomes[2].receipt.reused_tokens, static_cast<std::int64_t>(document.size()));
}

// Another prompt may part where the last message ends, so a tail is left there. It has no step of its own, which would
// read all weights for the few tokens behind, unless what the tail needs is sealed by then.
TEST_P(Reuse, AStepPassesTheEndOfAMessageWhoseTailCanBeMadeAfterwards) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  std::int32_t end = 0;
  while (!server.tokenizer().is_eog(end)) ++end;
  struct Case {
    std::size_t message, from;
    int steps;
  };
  const std::vector<std::int32_t> all = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  for (const Case& c : {Case{270, 0, 1}, Case{100, 1000, 2}}) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(c.from);
    std::vector<std::int32_t> prompt(begin, begin + 300);
    prompt[c.message - 1] = end;
    const int before = server.steps();
    server.ask(prompt, 1, true);
    // Tails of lossless pages can be made at any time, if the pages are in memory.
    const EngineOptions suite = as_the_suite_says(EngineOptions{});
    const int exact_steps = suite.kv_memory.empty() ? 1 : 2;
    // With a residual of 40 a page is sealed between either message's end and the prompt's.
    const int steps = suite.residual > 0 ? 2 : c.steps;
    EXPECT_EQ(server.steps() - before, std::string_view(GetParam()) == "exact" ? exact_steps : steps) << c.message;
    prompt.resize(c.message);
    for (int i = 0; i < 40; ++i) prompt.push_back(300 + i);
    const Reply other = server.ask(prompt, 3, true);
    EXPECT_EQ(other.outcome.receipt.reused_tokens, static_cast<std::int64_t>(c.message));
    expect_equal_bits(other, server.ask(prompt, 3, false));
  }
}

TEST_P(Reuse, TenantsDoNotMeetInTheStore) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  const std::vector<std::int32_t> prompt = turns(server.tokenizer(), 4, 100)[3];
  server.ask(prompt, 3, true, "a");
  const Reply other = server.ask(prompt, 3, true, "b");
  EXPECT_EQ(other.outcome.receipt.reused_tokens, 0);
  EXPECT_EQ(other.outcome.receipt.miss, "no earlier prompt begins like this one");
  EXPECT_EQ(server.ask(prompt, 3, true, "a").outcome.receipt.reused_tokens,
            static_cast<std::int64_t>(prompt.size()) - 1);
}

// Calls once when the first chunk is put.
class Notice : public store::Decorator {
 public:
  Notice(std::unique_ptr<store::Backend> inner, std::function<void()> call)
      : Decorator(std::move(inner)), call_(std::move(call)) {}
  store::Status put(std::span<const store::Offer> offers, store::Deadline deadline,
                    std::span<store::PutOutcome> outcomes) override {
    if (!called_.exchange(true)) call_();
    return Decorator::put(offers, deadline, outcomes);
  }

 private:
  const std::function<void()> call_;
  std::atomic<bool> called_{false};
};

// Else a prompt that is larger than a tier's queue would not be kept, and all of a cancelled one would be lost.
TEST_P(Reuse, APromptIsStoredWhileItIsComputed) {
  Server* running = nullptr;
  Server server(GetParam(), {"ram:?size=256MiB"}, [&](std::unique_ptr<store::Backend> ram) {
    return std::make_unique<Notice>(std::move(ram), [&] { running->cancel(1); });
  });
  running = &server;
  ServiceRequest r;
  r.request.prompt = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  ASSERT_GT(r.request.prompt.size(), 2500u);
  r.request.prompt.resize(2500);
  r.request.max_tokens = 1;
  const std::vector<std::int32_t> prompt = r.request.prompt;
  const Outcome cut = server.submit(std::move(r))->wait().outcome;
  EXPECT_EQ(cut.finish, Finish::kCancelled);
  ASSERT_EQ(cut.receipt.spans.size(), 1u);
  const std::int64_t computed = cut.receipt.spans[0].end;
  EXPECT_LT(computed, static_cast<std::int64_t>(prompt.size()) / 2);
  EXPECT_EQ(server.ask(prompt, 1, true).outcome.receipt.reused_tokens, computed);
}

// Ends its request when half of the prompt is computed.
class Leaver final : public Listener {
 public:
  explicit Leaver(std::function<void()> leave) : leave_(std::move(leave)) {}
  void prefill(std::int64_t done, std::int64_t total, std::int64_t) override {
    if (!left_ && 2 * done >= total) left_ = true, leave_();
  }
  void pieces(std::span<const Piece>) override {}
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
    changed_.notify_all();
  }
  Outcome wait() {
    std::unique_lock lock(mutex_);
    wait_patiently(changed_, lock, [&] { return outcome_.has_value(); });
    return *outcome_;
  }

 private:
  std::function<void()> leave_;
  bool left_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Outcome> outcome_;
};

// A client that leaves at half of a long prompt leaves what was computed: the retry computes the rest.
TEST_P(Reuse, ARequestThatIsCancelledLeavesItsPages) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  std::vector<std::int32_t> prompt = server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  prompt.resize(2800);
  std::atomic<RequestId> id = 0;
  auto leaver = std::make_shared<Leaver>([&] { server.cancel(id); });
  ServiceRequest r;
  r.request.prompt = prompt;
  r.request.max_tokens = 4;
  id = server.submit_to(std::move(r), leaver);
  EXPECT_EQ(leaver->wait().finish, Finish::kCancelled);
  const Reply retry = server.ask(prompt, 4, true);
  EXPECT_GE(retry.outcome.receipt.reused_tokens * 100, 45 * 2800);
  expect_equal_bits(retry, server.ask(prompt, 4, false));
}

// Prompts part where one of them was told to: the second one has all that they share.
TEST_P(Reuse, PartingsAreFoundByTheSecondRequest) {
  Server server(GetParam(), {"ram:?size=256MiB"});
  const std::vector<std::int32_t> text =
      server.tokenizer().encode(read_text_file(kSource + "/docs/results/reasons.md"));
  for (const std::int64_t shared : {40, 100, 129, 200, 300, 613, 800, 1500}) {
    std::vector<std::int32_t> first(text.begin() + shared, text.begin() + 2 * shared), second;
    second = first;
    first.insert(first.end(), {65, 66, 67, 68});
    second.insert(second.end(), {97, 98, 99});
    ServiceRequest r;
    r.request.prompt = first;
    r.request.max_tokens = 1;
    r.partings = {shared};
    server.submit(std::move(r))->wait();
    EXPECT_EQ(server.ask(second, 1, true).outcome.receipt.reused_tokens, shared);
  }
}

// The library's thread is still asking a slow tier when the scheduler that it would wake is gone.
TEST(ReuseEnds, WhileATierIsAsked) {
  const auto slow = [](std::unique_ptr<store::Backend> ram) {
    return store::faulty(std::move(ram), {.delay = std::chrono::milliseconds(150)});
  };
  ServiceRequest r;
  std::shared_ptr<Waiter> waiter;
  {
    Server server("exact", {"ram:?size=16MiB"}, slow);
    r.request.prompt = turns(server.tokenizer(), 4, 100)[3];
    waiter = server.submit(std::move(r));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // so that the search has begun
  }
  EXPECT_EQ(waiter->wait().outcome.finish, Finish::kCancelled);
}

// Pinned prompts stay whole under pressure, tails included, until they are unpinned; shared beginnings until the last.
TEST_P(Reuse, PinnedPromptsStayUntilTheyAreUnpinned) {
  Server server(GetParam(), {"ram:?size=12MiB"});
  const std::vector<std::int32_t> a = turns(server.tokenizer(), 4, 100)[3];
  std::vector<std::int32_t> b = a;
  for (int i = 0; i < 300; ++i) b.push_back(300 + i);
  const auto known = [&](const std::vector<std::int32_t>& prompt) {
    std::vector<std::int32_t> longer = prompt;
    longer.push_back(9);
    return server.ask(longer, 1, true).outcome.receipt.reused_tokens >= static_cast<std::int64_t>(prompt.size()) - 1;
  };
  const auto churn = [&] {
    std::int32_t next = 1000;
    for (int round = 0; round < 24; ++round) {
      std::vector<std::int32_t> other;
      for (int i = 0; i < 600; ++i) other.push_back(300 + (next++ * 7919) % 1500);
      server.ask(other, 1, true);
    }
  };
  EXPECT_EQ(server.warm(a).outcome.receipt.pin_error, "");
  EXPECT_EQ(server.warm(b).outcome.receipt.pin_error, "");
  EXPECT_GT(server.pinned_bytes(), 0u);
  churn();
  EXPECT_TRUE(known(a));
  EXPECT_TRUE(known(b));
  EXPECT_FALSE(server.unpin(b, "another tenant"));
  EXPECT_TRUE(server.unpin(b));
  EXPECT_FALSE(server.unpin(b)) << "once";
  churn();
  churn();
  EXPECT_TRUE(known(a)) << "the other prompt shares its beginning";
  EXPECT_TRUE(server.unpin(a));
  EXPECT_EQ(server.pinned_bytes(), 0u);
  server.warm(a, 0.001);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(server.unpin(a)) << "its time was over";
}

TEST_P(Reuse, PinsThatCannotHoldSaySo) {
  Server small(GetParam(), {"ram:?size=24MiB&pins=1KiB"});
  const std::vector<std::int32_t> prompt = turns(small.tokenizer(), 4, 100)[3];
  EXPECT_NE(small.warm(prompt).outcome.receipt.pin_error.find("1024 bytes"), std::string::npos);
}

// Metrics with the same name and labels twice are refused by who reads them.
TEST_P(Reuse, TiersOfOneKindHaveTheirOwnNames) {
  Server server(GetParam(), {"ram:?size=4KiB", "ram:?size=24MiB", "ram:?size=24MiB"});
  const std::vector<std::int32_t> prompt = turns(server.tokenizer(), 4, 100)[3];
  server.ask(prompt, 1, true);
  EXPECT_EQ(server.ask(prompt, 1, true).outcome.receipt.spans.front().source, "ram-2");
  std::vector<std::string> names;
  for (const TierStats& tier : server.stats().tiers) names.push_back(tier.tier);
  EXPECT_EQ(names, (std::vector<std::string>{"ram", "ram-2", "ram-3"}));
}

TEST_P(Reuse, TheBudgetHoldsUnderChurn) {
  Server server(GetParam(), {"ram:?size=6MiB"});
  for (std::size_t i = 0; i < 30; ++i) {
    std::vector<std::int32_t> prompt;
    for (const auto& turn : turns(server.tokenizer(), 8, 37 * i)) append(prompt, turn);
    server.ask(prompt, 2, true);
    const ServiceStats stats = server.stats();
    ASSERT_EQ(stats.tiers.size(), 1u);
    EXPECT_LE(stats.tiers[0].bytes, stats.tiers[0].budget);
  }
  EXPECT_GT(server.stats().tiers[0].evictions, 0u);
}

}  // namespace
}  // namespace kvasir::run
