// Log-probabilities of prompts, answers beyond the context, and budgets of thinking: each alone, beside other requests,
// with reuse and after a restart.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "run/answer.hpp"
#include "run/reuse_fixture.hpp"

namespace kvasir::run {
namespace {

using testing::kBooks;

constexpr std::int32_t kContext = 300;

EngineOptions options_of(const char* kv) {
  EngineOptions o;
  o.model = kBooks;
  o.ctx = kContext;
  o.kv = kv;
  o.threads = 2;
  o.chunk = 64;
  return o;
}

std::vector<std::int32_t> some_text(const text::Tokenizer& tokenizer, std::size_t from, std::size_t count) {
  static const std::string book = read_text_file(testing::kSource + "/docs/results/reasons.md");
  const std::vector<std::int32_t> ids = tokenizer.encode(book);
  return {ids.begin() + static_cast<std::ptrdiff_t>(from), ids.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

class Scores final : public Listener {
 public:
  void scored(std::span<const TokenRecord> tokens) override {
    prompt_.insert(prompt_.end(), tokens.begin(), tokens.end());
  }
  void pieces(std::span<const Piece> pieces) override {
    for (const Piece& p : pieces) {
      if (p.token.id >= 0) ids_.push_back(p.token.id);
      text_ += p.text;
    }
    count_ = static_cast<int>(ids_.size());
  }
  int count() const { return count_; }  // of tokens, so far
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
    done_ = true;
    changed_.notify_all();
  }
  Outcome wait() {
    std::unique_lock lock(mutex_);
    wait_patiently(changed_, lock, [&] { return done_; });
    return outcome_;
  }
  const std::vector<TokenRecord>& prompt() const { return prompt_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Outcome outcome_;
  std::vector<TokenRecord> prompt_;
  std::vector<std::int32_t> ids_;
  std::atomic<int> count_{0};
  std::string text_;
};

ServiceRequest asking(std::vector<std::int32_t> prompt, std::int32_t tokens) {
  ServiceRequest r;
  r.request.prompt = std::move(prompt);
  r.request.max_tokens = tokens;
  r.request.sampling.temperature = 0;
  r.request.ignore_eos = true;
  return r;
}

ServiceRequest scoring(std::vector<std::int32_t> prompt, std::int32_t tokens) {
  ServiceRequest r = asking(std::move(prompt), tokens);
  r.request.top_logprobs = 2;
  r.request.prompt_logprobs = true;
  return r;
}

// What the model says of a prompt whose rows of logits all come from one step.
std::vector<float> logprobs_of(const char* kv, const std::vector<std::int32_t>& prompt) {
  EngineOptions o = options_of(kv);
  o.chunk = kContext;
  Engine engine(o, Engine::Needs{.logits = kContext});
  kv::Sequence* const sequence = engine.cache().create();
  const auto n = prompt.size();
  const std::span<const float> rows = engine.feed(sequence, prompt, static_cast<int>(n));
  const std::size_t vocab = rows.size() / n;
  std::vector<float> out;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const auto row = rows.subspan(i * vocab, vocab);
    out.push_back(logprob_of(row, prompt[i + 1], log_partition(row)));
  }
  engine.cache().release(sequence);
  return out;
}

class ScoringTest : public ::testing::Test {
 protected:
  void start(const char* kv, std::int32_t running = 3) {
    engine_ = std::make_unique<Engine>(options_of(kv),
                                       Engine::Needs{.sequences = running, .pool_tokens = 2048, .logits = running});
    std::vector<std::shared_ptr<store::Tier>> tiers;
    tiers.push_back(store::open_tier("ram:?size=64MiB"));
    library_ = std::make_unique<store::Library>(engine_->cache(), store::fingerprint_of(describe_cache(*engine_)),
                                                std::move(tiers));
    scheduler_ = std::make_unique<Scheduler>(*engine_, SchedulerOptions{.running = running}, "test", library_.get());
  }
  std::shared_ptr<Scores> submit(ServiceRequest request) {
    auto scores = std::make_shared<Scores>();
    scheduler_->submit(std::move(request), scores);
    return scores;
  }
  std::vector<std::int32_t> text(std::size_t from, std::size_t count) {
    return some_text(*engine_->tokenizer(), from, count);
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<store::Library> library_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(ScoringTest, PromptsHaveTheLogprobsOfTheirRows) {
  for (const char* kv : {"f16", "balanced"}) {
    SCOPED_TRACE(kv);
    start(kv);
    const std::vector<std::int32_t> prompt = text(100, 270);
    const std::vector<float> expected = logprobs_of(kv, prompt);
    // Known already, and beside others: nothing of it shows.
    const auto plain = submit(asking(prompt, 3));
    EXPECT_EQ(plain->wait().error, "");
    const auto other = submit(asking(text(0, 90), 40));
    const auto scored = submit(scoring(prompt, 3)), again = submit(scoring(prompt, 0));
    for (const auto& s : {scored, again}) {
      const Outcome out = s->wait();
      EXPECT_EQ(out.receipt.reused_tokens, 0);
      EXPECT_EQ(out.receipt.miss, "");
      ASSERT_EQ(s->prompt().size(), prompt.size());
      EXPECT_TRUE(std::isnan(s->prompt()[0].logprob));
      for (std::size_t i = 1; i < prompt.size(); ++i) {
        EXPECT_EQ(s->prompt()[i].id, prompt[i]);
        EXPECT_EQ(s->prompt()[i].logprob, expected[i - 1]) << i;
        EXPECT_EQ(s->prompt()[i].best.size(), 2u);
        EXPECT_GE(s->prompt()[i].best[0].logprob, expected[i - 1]);
      }
    }
    other->wait();
    EXPECT_EQ(scored->ids(), plain->ids());
    EXPECT_EQ(again->ids().size(), 0u);
    EXPECT_TRUE(plain->prompt().empty());
    const auto later = submit(asking(prompt, 3));
    EXPECT_GE(later->wait().receipt.reused_tokens, 269);  // what was scored is kept as always
    EXPECT_EQ(later->ids(), plain->ids());
    scheduler_.reset();
  }
}

TEST_F(ScoringTest, OneTokenHasNothingToScore) {
  start("f16");
  const auto s = submit(scoring(text(0, 1), 0));
  EXPECT_EQ(s->wait().error, "");
  EXPECT_EQ(s->prompt().size(), 1u);
}

// Token by token, with the rule in plain words.
std::vector<std::int32_t> beyond_the_context(std::vector<std::int32_t> ids, std::size_t tokens, std::int64_t keep,
                                             const char* kv) {
  Engine engine(options_of(kv), {});
  std::vector<std::int32_t> out;
  kv::Sequence* sequence = engine.cache().create();
  std::span<const float> row = engine.feed(sequence, ids);
  while (out.size() < tokens) {
    const auto best = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    const std::int64_t cached = kv::Cache::length(*sequence);
    out.push_back(best);
    ids.push_back(best);
    if (cached + 1 >= kContext) {
      const std::int64_t kept = std::min(keep, static_cast<std::int64_t>(ids.size()) / 2);
      const std::int64_t gone = (static_cast<std::int64_t>(ids.size()) - kept) / 2;
      ids.erase(ids.begin() + kept, ids.begin() + kept + gone);
      engine.cache().release(sequence);
      sequence = engine.cache().create();
      row = engine.feed(sequence, ids);
    } else {
      row = engine.decode(sequence, best);
    }
  }
  return out;
}

TEST_F(ScoringTest, AShiftIsAnAnswerToTheShorterText) {
  for (const char* kv : {"f16", "balanced"}) {
    SCOPED_TRACE(kv);
    start(kv, 2);
    const std::vector<std::int32_t> prompt = text(40, 200);
    const std::vector<std::int32_t> expected = beyond_the_context(prompt, 300, 16, kv);
    ServiceRequest r = asking(prompt, 300);
    r.request.keep = 16;
    const auto first = submit(r);
    const auto beside = submit(asking(text(600, 150), 30));
    for (const auto& s : {first, submit(r)}) {
      const Outcome out = s->wait();
      EXPECT_EQ(out.error, "");
      EXPECT_EQ(out.finish, Finish::kLength);
      EXPECT_EQ(out.completion_tokens, 300);
      EXPECT_EQ(s->ids(), expected);
      EXPECT_GE(out.shifts, 2);
      EXPECT_GT(out.shifted_tokens, 200);
      EXPECT_EQ(out.prompt_tokens, 200);
      ASSERT_FALSE(out.receipt.spans.empty());
      EXPECT_EQ(out.receipt.spans.back().end, 200);
    }
    EXPECT_EQ(beside->wait().error, "");
    const auto without = submit(asking(prompt, 300));
    EXPECT_EQ(without->wait().finish, Finish::kContext);
    EXPECT_EQ(without->wait().shifts, 0);
    EXPECT_TRUE(std::equal(without->ids().begin(), without->ids().end(), expected.begin()));
    scheduler_.reset();
    engine_->cache().check_integrity();
  }
}

TEST_F(ScoringTest, AnswersWithoutALimitGoOnUntilTheyAreCancelled) {
  start("f16", 1);
  ServiceRequest r = asking(text(0, 50), -1);
  r.request.keep = 0;
  auto scores = std::make_shared<Scores>();
  const RequestId id = scheduler_->submit(std::move(r), scores);
  const double end = steady_seconds() + static_cast<double>(kPatience.count());
  while (scores->count() <= kContext && steady_seconds() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  scheduler_->cancel(id);
  EXPECT_EQ(scores->wait().finish, Finish::kCancelled);
  EXPECT_GT(scores->ids().size(), static_cast<std::size_t>(kContext));
}

const text::ReasoningMarks kMarks{.open = "<think>", .close = "</think>"};

TEST_F(ScoringTest, ABudgetEndsThinking) {
  start("f16");
  const std::vector<std::int32_t> prompt = text(10, 60);
  const auto free = submit(asking(prompt, 40));
  free->wait();
  const text::Tokenizer& t = *engine_->tokenizer();
  const std::vector<std::int32_t> closing = t.encode("\n</think>\n\n", {.parse_special = true, .behind_text = true});
  for (const std::int32_t most : {0, 1, 10}) {
    SCOPED_TRACE(most);
    ServiceRequest r = asking(prompt, 40);
    r.request.thinking = {.most = most, .marks = kMarks, .inside = true, .closing = closing};
    const auto bound = submit(r);
    const Outcome out = bound->wait();
    const auto& ids = bound->ids();
    EXPECT_GE(out.thinking_tokens, most);
    EXPECT_LE(out.thinking_tokens, most + 4);  // a character ends
    const auto cut = static_cast<std::size_t>(out.thinking_tokens);
    ASSERT_EQ(ids.size(), 40u);
    EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut), free->ids().begin()));
    EXPECT_TRUE(std::equal(closing.begin(), closing.end(), ids.begin() + static_cast<std::ptrdiff_t>(cut)));
    EXPECT_NE(bound->text().find("</think>"), std::string::npos);
    // What follows is what the model says behind this text.
    std::vector<std::int32_t> text = prompt;
    text.insert(text.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut + closing.size()));
    const auto behind = submit(asking(text, 40 - static_cast<std::int32_t>(cut + closing.size())));
    behind->wait();
    EXPECT_TRUE(std::equal(behind->ids().begin(), behind->ids().end(),
                           ids.end() - static_cast<std::ptrdiff_t>(behind->ids().size())));
  }
}

TEST_F(ScoringTest, ABudgetLeavesAloneWhoDoesNotThink) {
  start("f16");
  ServiceRequest r = asking(text(10, 60), 40);
  const auto free = submit(r);
  free->wait();
  r.request.thinking = {.most = 0, .marks = kMarks, .inside = false, .closing = {65}};
  const auto bound = submit(r);
  EXPECT_EQ(bound->wait().thinking_tokens, -1);
  EXPECT_EQ(bound->ids(), free->ids());
}

// Two agents take turns: neither pushes the other's pages out.
TEST(Agents, InterleavedOnesKeepTheirPages) {
  testing::Server server("balanced", {"ram:?size=64MiB"});
  std::vector<std::int32_t> conversation[2];
  std::int64_t known[2] = {0, 0};
  const auto parts = testing::turns(server.tokenizer(), 20, 0);
  for (std::size_t turn = 0; turn < 10; ++turn) {
    for (std::size_t agent = 0; agent < 2; ++agent) {
      std::vector<std::int32_t>& ids = conversation[agent];
      testing::append(ids, parts[(2 * turn + agent * 7) % parts.size()]);
      const testing::Reply reply = server.ask(ids, 12, true);
      if (turn > 0) {
        EXPECT_GE(static_cast<double>(reply.outcome.receipt.reused_tokens), 0.99 * static_cast<double>(known[agent]))
            << "turn " << turn << " of agent " << agent;
      }
      testing::append(ids, reply.ids());
      known[agent] = static_cast<std::int64_t>(ids.size()) - 1;  // the last token was chosen and not computed
    }
  }
}

}  // namespace
}  // namespace kvasir::run
