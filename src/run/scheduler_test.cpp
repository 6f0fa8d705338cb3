#include "run/scheduler.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/patience_fixture.hpp"
#include "run/answer.hpp"
#include "run/ask.hpp"
#include "run/suite_fixture.hpp"

namespace kvasir::run {
namespace {

using namespace std::chrono_literals;

const std::string kModel = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

EngineOptions engine_options(const char* kv, std::int32_t ctx = 2048) {
  EngineOptions o;
  o.model = kModel;
  o.ctx = ctx;
  o.kv = kv;
  o.threads = 2;
  return testing::as_the_suite_says(o);
}

// Collects what a request gets; any thread may wait for it.
class Log final : public Listener {
 public:
  explicit Log(std::chrono::microseconds delay = 0us) : delay_(delay) {}
  void started() override {
    const std::lock_guard lock(mutex_);
    ++starts_;
    changed_.notify_all();
  }
  void pieces(std::span<const Piece> pieces) override {
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(dones_, 0);
    for (const Piece& p : pieces) {
      if (p.token.id >= 0) ids_.push_back(p.token.id);
      text_ += p.text;
    }
    changed_.notify_all();
  }
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
    ++dones_;
    changed_.notify_all();
  }

  Outcome wait() {
    std::unique_lock lock(mutex_);
    wait_patiently(changed_, lock, [&] { return dones_ > 0; });
    return outcome_;
  }
  bool wait_for_tokens(std::size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return ids_.size() >= n || dones_ > 0; });
  }
  void wait_for_start() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return starts_ > 0; });
  }
  std::vector<std::int32_t> ids() const {
    const std::lock_guard lock(mutex_);
    return ids_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  int dones() const {
    const std::lock_guard lock(mutex_);
    return dones_;
  }
  int starts() const {
    const std::lock_guard lock(mutex_);
    return starts_;
  }

 private:
  const std::chrono::microseconds delay_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::int32_t> ids_;
  std::string text_;
  Outcome outcome_;
  int starts_ = 0, dones_ = 0;
};

// Token ids of a book, from some place on.
std::vector<std::int32_t> text(const Engine& engine, std::size_t from, std::size_t count) {
  static const std::string book = read_text_file(std::string(KVASIR_SOURCE_DIR) + "/DECISIONS.md") +
                                  read_text_file(std::string(KVASIR_SOURCE_DIR) + "/README.md");
  std::vector<std::int32_t> ids = engine.tokenizer()->encode(book);
  EXPECT_GE(ids.size(), from + count);
  return {ids.begin() + static_cast<std::ptrdiff_t>(from), ids.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

ServiceRequest ask(std::vector<std::int32_t> prompt, std::int32_t tokens) {
  ServiceRequest r;
  r.request.prompt = std::move(prompt);
  r.request.max_tokens = tokens;
  r.request.sampling.temperature = 0;
  r.request.ignore_eos = true;
  return r;
}

// A request on an engine without a scheduler, token by token: what the scheduler is held against.
struct Alone {
  std::vector<std::int32_t> ids;
  std::string text;
  Finish finish = Finish::kLength;
};
Alone alone_on(Engine& engine, const Request& request) {
  Answer answer(engine, request);
  kv::Sequence* const sequence = engine.cache().create();
  Alone out;
  std::span<const float> row = engine.feed(sequence, request.prompt);
  for (bool more = true; more;) {
    more = answer.next(row, kv::Cache::length(*sequence));
    out.text += answer.text();
    if (more) row = engine.decode(sequence, answer.token());
  }
  engine.cache().release(sequence);
  out.ids.assign(answer.ids().begin(), answer.ids().end());
  out.finish = answer.finish();
  return out;
}

class SchedulerTest : public ::testing::Test {
 protected:
  void start(const char* kv, SchedulerOptions options, std::int64_t pool = 8192, std::int32_t ctx = 2048) {
    options_ = options;
    engine_ = std::make_unique<Engine>(
        engine_options(kv, ctx), testing::as_the_suite_says(Engine::Needs{
                                     .sequences = options.running, .pool_tokens = pool, .logits = options.running}));
    scheduler_ = std::make_unique<Scheduler>(*engine_, options, "test");
  }
  std::shared_ptr<Log> submit(ServiceRequest request, RequestId* id = nullptr) {
    auto log = std::make_shared<Log>();
    const RequestId got = scheduler_->submit(std::move(request), log);
    if (id) *id = got;
    return log;
  }
  void expect_empty() {
    EXPECT_TRUE(scheduler_->drain(static_cast<double>(kPatience.count())));
    EXPECT_EQ(scheduler_->stats().kv_bytes, 0u);
    EXPECT_EQ(scheduler_->stats().running, 0);
    scheduler_.reset();
    engine_->cache().check_integrity();
    EXPECT_EQ(engine_->cache().stats().free_pages, engine_->cache().memory().pages);
  }

  SchedulerOptions options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, EachRequestGetsWhatItGetsAlone) {
  for (const char* kv : {"f16", "balanced"}) {
    SCOPED_TRACE(kv);
    std::vector<ServiceRequest> requests;
    std::vector<Alone> alone;
    {
      Engine engine(engine_options(kv), testing::as_the_suite_says(Engine::Needs()));
      const std::size_t lengths[] = {1, 17, 127, 128, 129, 300, 700, 33, 500};
      for (std::size_t i = 0; i < std::size(lengths); ++i) {
        ServiceRequest r = ask(text(engine, 53 * i, lengths[i]), static_cast<std::int32_t>(20 + 7 * i));
        if (i % 3 == 1) r.request.sampling.temperature = 1, r.request.sampling.seed = static_cast<std::int64_t>(i);
        if (i % 3 == 2) r.request.stop = {"the"};
        if (i == 4) r.request.top_logprobs = 2;
        alone.push_back(alone_on(engine, r.request));
        requests.push_back(std::move(r));
      }
    }
    start(kv, {.running = 4, .waiting = 16, .step_tokens = 64});
    std::vector<std::shared_ptr<Log>> logs;
    for (const ServiceRequest& r : requests) logs.push_back(submit(r));
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const Outcome out = logs[i]->wait();
      EXPECT_EQ(out.error, "");
      EXPECT_EQ(out.finish, alone[i].finish) << i;
      EXPECT_EQ(logs[i]->ids(), alone[i].ids) << i;
      EXPECT_EQ(logs[i]->text(), alone[i].text) << i;
      EXPECT_EQ(out.completion_tokens, static_cast<std::int64_t>(alone[i].ids.size()));
      std::int64_t covered = 0;
      for (const Span& s : out.receipt.spans) {
        EXPECT_EQ(s.begin, covered);
        covered = s.end;
      }
      EXPECT_EQ(covered, out.prompt_tokens);
      EXPECT_EQ(logs[i]->starts(), 1);
    }
    expect_empty();
  }
}

TEST_F(SchedulerTest, ACommonBeginningIsComputedOnce) {
  for (const char* kv : {"f16", "balanced"}) {
    SCOPED_TRACE(kv);
    start(kv, {.running = 8, .waiting = 16, .step_tokens = 64});
    const std::vector<std::int32_t> common = text(*engine_, 0, 700);
    std::vector<std::shared_ptr<Log>> logs;
    std::vector<ServiceRequest> requests;
    for (int i = 0; i < 8; ++i) {
      std::vector<std::int32_t> prompt = common;
      for (int t = 0; t < i; ++t) prompt.push_back(100 + i);  // the first two differ by one token, 0 is a prefix of all
      requests.push_back(ask(prompt, 12));
    }
    // They arrive while the first one is being computed.
    logs.push_back(submit(requests[0]));
    for (int i = 1; i < 8; ++i) logs.push_back(submit(requests[static_cast<std::size_t>(i)]));
    std::int64_t computed = 0;
    for (int i = 0; i < 8; ++i) {
      const Outcome out = logs[static_cast<std::size_t>(i)]->wait();
      computed += out.prompt_tokens - out.receipt.reused_tokens;
      if (i > 0) {
        EXPECT_GE(out.receipt.reused_tokens, 699) << i;
        EXPECT_EQ(out.receipt.spans.front().source, "live");
      }
    }
    EXPECT_LE(computed, 700 + 8 * 9);
    expect_empty();
    Engine engine(engine_options(kv), testing::as_the_suite_says(Engine::Needs()));
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(logs[i]->ids(), alone_on(engine, requests[i].request).ids) << i;
  }
}

TEST_F(SchedulerTest, EqualRequestsShareAllButTheLastToken) {
  start("balanced", {.running = 4, .waiting = 16, .step_tokens = 64});
  const ServiceRequest request = ask(text(*engine_, 0, 400), 5);
  std::vector<std::shared_ptr<Log>> logs;
  for (int i = 0; i < 4; ++i) logs.push_back(submit(request));
  for (auto& log : logs) log->wait();
  for (auto& log : logs) EXPECT_EQ(log->ids(), logs[0]->ids());
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(logs[i]->wait().receipt.reused_tokens, 399);
  expect_empty();
}

TEST_F(SchedulerTest, TenantsShareNothingAndReuseCanBeOff) {
  start("f16", {.running = 4, .waiting = 16, .step_tokens = 64});
  ServiceRequest request = ask(text(*engine_, 0, 600), 3);
  std::vector<std::shared_ptr<Log>> logs{submit(request)};
  request.tenant = "other";
  logs.push_back(submit(request));
  request.tenant = "";
  request.reuse = false;
  logs.push_back(submit(request));
  for (auto& log : logs) EXPECT_EQ(log->wait().receipt.reused_tokens, 0);
  expect_empty();
}

TEST_F(SchedulerTest, CancellingWorksAtAnyPoint) {
  start("balanced", {.running = 2, .waiting = 16, .step_tokens = 32});
  const std::vector<std::int32_t> prompt = text(*engine_, 0, 1500);
  RequestId waiting = 0, prefilling = 0, decoding = 0, follower = 0;
  const auto d = submit(ask({prompt.begin(), prompt.begin() + 20}, 1000), &decoding);
  d->wait_for_tokens(3);
  const auto p = submit(ask(prompt, 10), &prefilling);
  p->wait_for_start();
  const auto f = submit(ask(prompt, 10), &follower);
  const auto w = submit(ask(prompt, 10), &waiting);
  scheduler_->cancel(waiting);
  EXPECT_EQ(w->wait().finish, Finish::kCancelled);
  scheduler_->cancel(decoding);
  EXPECT_EQ(d->wait().finish, Finish::kCancelled);
  EXPECT_GE(d->wait().completion_tokens, 3);
  f->wait_for_start();             // it waits for p's tokens, or has them
  scheduler_->cancel(prefilling);  // perhaps it is done already
  EXPECT_NE(p->wait().finish, Finish::kNothing);
  EXPECT_EQ(f->wait().finish, Finish::kLength);
  EXPECT_EQ(f->ids().size(), 10u);
  scheduler_->cancel(follower);
  scheduler_->cancel(12345);
  for (const auto& log : {d, p, f, w}) EXPECT_EQ(log->dones(), 1);
  EXPECT_LE(w->starts(), 0);
  expect_empty();
}

TEST_F(SchedulerTest, AShortPromptIsNotHeldUpByALongOne) {
  start("f16", {.running = 4, .waiting = 16, .step_tokens = 64});
  const auto talk = submit(ask(text(*engine_, 7, 10), 200));  // an answer that grows
  talk->wait_for_tokens(1);
  const auto slow = submit(ask(text(*engine_, 0, 1900), 1));
  slow->wait_for_start();
  const std::size_t before = talk->ids().size();
  const auto quick = submit(ask(text(*engine_, 60, 40), 1));
  quick->wait();
  EXPECT_EQ(slow->dones(), 0);
  slow->wait();
  EXPECT_GT(talk->ids().size(), before + 5);  // and the answer went on
  talk->wait();
  expect_empty();
}

// How far another request's answer comes while this one is computed.
class Onlooker final : public Listener {
 public:
  // own: hears what this request gets, too.
  explicit Onlooker(std::shared_ptr<Log> other, std::shared_ptr<Log> own = nullptr)
      : other_(std::move(other)), own_(std::move(own)) {}
  void started() override { from_ = other_->ids().size(); }
  void pieces(std::span<const Piece> pieces) override {
    if (own_) own_->pieces(pieces);
  }
  void done(const Outcome& outcome) override {
    if (own_) own_->done(outcome);
    passed_.set_value(other_->ids().size() - from_);
  }
  std::size_t passed() { return passed_.get_future().get(); }

 private:
  const std::shared_ptr<Log> other_, own_;
  std::size_t from_ = 0;
  std::promise<std::size_t> passed_;
};

// However slow the machine is, an answer comes on beside a prompt; and neither has other bits than alone.
TEST_F(SchedulerTest, AStepBesideAnswersIsBoundedByTime) {
  const auto passed = [&](std::int32_t step_ms) {
    start("balanced", {.running = 2, .waiting = 2, .step_tokens = 256, .step_ms = step_ms});
    const ServiceRequest talk = ask(text(*engine_, 7, 10), 300), slow = ask(text(*engine_, 100, 1000), 3);
    const auto answer = submit(talk), prompt = std::make_shared<Log>();
    answer->wait_for_tokens(1);
    const auto onlooker = std::make_shared<Onlooker>(answer, prompt);
    scheduler_->submit(slow, onlooker);
    const std::size_t tokens = onlooker->passed();
    answer->wait();
    const std::vector<std::int32_t> ids[] = {answer->ids(), prompt->ids()};
    expect_empty();
    Engine engine(engine_options("balanced"), {});
    EXPECT_EQ(ids[0], alone_on(engine, talk.request).ids);
    EXPECT_EQ(ids[1], alone_on(engine, slow.request).ids);
    return tokens;
  };
  const std::size_t unbounded = passed(0);
  EXPECT_LE(unbounded, 10u);        // steps of 255 rows, and the prompt's own answer
  EXPECT_LE(passed(3600000), 12u);  // an hour is no bound
  EXPECT_GT(passed(200), 0u);       // whatever comes of it on this machine, with the same bits
  const std::size_t bounded = passed(1);
  EXPECT_GT(bounded, unbounded);  // the first step is one of few rows on any machine
  EXPECT_LE(bounded, 1000 / PromptPace::kFewest + 10u);
}

TEST_F(SchedulerTest, APromptHasItsShareBesideManyAnswers) {
  start("f16", {.running = 16, .waiting = 16, .step_tokens = 16});
  std::vector<std::shared_ptr<Log>> answers;
  for (int i = 0; i < 15; ++i)
    answers.push_back(submit(ask(text(*engine_, 40 * static_cast<std::size_t>(i), 20), 400)));
  for (const auto& a : answers) a->wait_for_tokens(1);
  const auto prompt = std::make_shared<Onlooker>(answers[0]);
  scheduler_->submit(ask(text(*engine_, 1000, 240), 1), prompt);
  EXPECT_LE(prompt->passed(), 240 / 4 + 2);  // not the 240 steps that one token of 16 would take
  scheduler_.reset();
}

TEST_F(SchedulerTest, AFullQueueRefusesAndWaitingHasALimit) {
  start("f16", {.running = 1, .waiting = 2, .step_tokens = 64});
  RequestId id = 0;
  const auto first = submit(ask(text(*engine_, 0, 20), 1500), &id);
  first->wait_for_tokens(1);
  while (scheduler_->stats().running == 0) std::this_thread::yield();  // published at the end of the step
  ServiceRequest impatient = ask(text(*engine_, 0, 20), 1);
  impatient.timeout = 0.1;
  const auto late = submit(impatient);
  const auto patient = submit(ask(text(*engine_, 0, 20), 1));
  const auto refused = [&] {
    try {
      submit(ask(text(*engine_, 0, 20), 1));
    } catch (const Error& e) {
      return e.code() == Code::kBusy;
    }
    return false;
  };
  EXPECT_TRUE(refused());
  EXPECT_NE(late->wait().error.find("time-out"), std::string::npos);
  EXPECT_EQ(late->wait().failure, Failure::kQueueTimeout);
  scheduler_->cancel(id);
  EXPECT_EQ(patient->wait().error, "");
  EXPECT_TRUE(scheduler_->drain(10));
  EXPECT_TRUE(refused());
  EXPECT_EQ(scheduler_->stats().rejected, 2u);
  EXPECT_EQ(scheduler_->stats().failed, 1u);
  expect_empty();
}

// Also of answers of a token: those grow in no step of their own.
TEST_F(SchedulerTest, CountsWhatItsStepsDid) {
  start("f16", {.running = 2, .waiting = 4, .step_tokens = 64});
  EXPECT_EQ(scheduler_->stats().pool.used(), 0);
  EXPECT_EQ(scheduler_->stats().pool.pages, engine_->cache().memory().pages);
  submit(ask(text(*engine_, 0, 150), 1))->wait();
  ASSERT_TRUE(scheduler_->drain(static_cast<double>(kPatience.count())));
  StepStats work = scheduler_->stats().work;
  EXPECT_EQ(work.prompt_tokens, 150u);
  EXPECT_GT(work.prompt_rate(), 0);
  EXPECT_EQ(work.steps, 0u);
  EXPECT_EQ(work.answer_rate(), 0);
  expect_empty();
  start("f16", {.running = 2, .waiting = 4, .step_tokens = 64});
  const auto first = submit(ask(text(*engine_, 0, 300), 40)), second = submit(ask(text(*engine_, 0, 300), 40));
  first->wait(), second->wait();
  ASSERT_TRUE(scheduler_->drain(static_cast<double>(kPatience.count())));
  const ServiceStats stats = scheduler_->stats();
  work = stats.work;
  EXPECT_EQ(work.answer_tokens, 2u * 39u);
  EXPECT_EQ(work.answers, work.answer_tokens);  // without drafts a token each
  EXPECT_EQ(work.most_answers, 2u);
  EXPECT_LT(work.steps, work.answers);
  EXPECT_GT(work.answer_rate(), 0);
  EXPECT_EQ(work.prompt_tokens + stats.reused_tokens, 600u);
  EXPECT_EQ(stats.cut, 2u);
  EXPECT_EQ(stats.stopped, 0u);
  EXPECT_EQ(stats.pool.used(), 0);
  expect_empty();
}

TEST_F(SchedulerTest, AQueueOfNothingTakesWhatCanRun) {
  start("f16", {.running = 2, .waiting = 0, .step_tokens = 64});
  const auto first = submit(ask(text(*engine_, 0, 100), 400));
  const auto second = submit(ask(text(*engine_, 300, 100), 400));
  first->wait_for_start();
  second->wait_for_start();
  EXPECT_THROW(submit(ask(text(*engine_, 0, 10), 1)), Error);
  EXPECT_EQ(first->wait().completion_tokens, 400);
  EXPECT_EQ(second->wait().completion_tokens, 400);
}

TEST_F(SchedulerTest, APromptThatOutgrowsThePoolAloneSaysSo) {
  start("f16", {.running = 2, .waiting = 4, .step_tokens = 64}, 512, 2048);
  const auto large = submit(ask(text(*engine_, 0, 1500), 4));
  EXPECT_EQ(large->wait().failure, Failure::kNoRoom);
  EXPECT_NE(large->wait().error, "");
  EXPECT_EQ(submit(ask(text(*engine_, 0, 100), 4))->wait().failure, Failure::kNone);
  EXPECT_EQ(scheduler_->stats().failed, 1u);
  expect_empty();
}

TEST_F(SchedulerTest, BadRequestsAreRefusedAtOnce) {
  start("f16", {.running = 1, .waiting = 2, .step_tokens = 64});
  const auto code = [&](ServiceRequest r) {
    try {
      submit(std::move(r));
    } catch (const Error& e) {
      return e.code();
    }
    return Code::kCancelled;
  };
  EXPECT_EQ(code(ask({}, 1)), Code::kBadInput);
  EXPECT_EQ(code(ask({-1}, 1)), Code::kBadInput);
  EXPECT_EQ(code(ask(std::vector<std::int32_t>(2048, 5), 1)), Code::kBadInput);
  ServiceRequest stop = ask({5}, 1);
  stop.request.stop = {""};
  EXPECT_EQ(code(stop), Code::kBadInput);
  expect_empty();
}

// Answers outgrow the pool: the youngest gives way and comes back, and nobody's text changes.
TEST_F(SchedulerTest, PreemptedRequestsEndWithTheSameAnswer) {
  if (engine_options("f16").select != "all")
    GTEST_SKIP() << "the tokens of a preempted answer are computed again as a prompt, which reads everything";
  start("f16", {.running = 3, .waiting = 16, .step_tokens = 64}, 1536, 1400);
  std::vector<ServiceRequest> requests;
  std::vector<std::shared_ptr<Log>> logs;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(ask(text(*engine_, static_cast<std::size_t>(100 * i), 200), 600));
    requests.back().request.max_tokens = -1;  // reserves less than it takes
    requests.back().request.sampling.temperature = 1;
    requests.back().request.sampling.seed = i;
    logs.push_back(submit(requests.back()));
  }
  for (auto& log : logs) {
    EXPECT_EQ(log->wait().error, "");
    EXPECT_EQ(log->wait().finish, Finish::kContext);
  }
  EXPECT_GE(scheduler_->stats().preempted, 1u);
  EXPECT_LE(scheduler_->stats().preempted, 4u);  // not again and again
  expect_empty();
  Engine engine(engine_options("f16", 1400), testing::as_the_suite_says(Engine::Needs()));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(logs[i]->ids(), alone_on(engine, requests[i].request).ids) << i;
  }
}

TEST_F(SchedulerTest, ARequestThatAsksForNothingOnlyComputesItsPrompt) {
  start("balanced", {.running = 2, .waiting = 4, .step_tokens = 64});
  const auto log = submit(ask(text(*engine_, 0, 300), 0));
  const Outcome out = log->wait();
  EXPECT_EQ(out.finish, Finish::kLength);
  EXPECT_EQ(out.completion_tokens, 0);
  EXPECT_TRUE(log->ids().empty());
  expect_empty();
}

// What `kvasir run` does: one request, its progress, its text and its figures.
TEST_F(SchedulerTest, AskWaitsForTheAnswer) {
  start("balanced", {.running = 1, .waiting = 0});
  const ServiceRequest request = ask(text(*engine_, 0, 1300), 40);
  std::string heard;
  std::vector<std::int64_t> done;
  const Answered reply = run::ask(*scheduler_, request,
                                  {.text = [&](std::string_view piece) { heard += piece; },
                                   .prefill =
                                       [&](std::int64_t tokens, std::int64_t total) {
                                         EXPECT_EQ(total, 1300);
                                         done.push_back(tokens);
                                       },
                                   .cancelled = [] { return false; }});
  EXPECT_EQ(done, (std::vector<std::int64_t>{512, 1024, 1300}));
  EXPECT_EQ(reply.text, heard);
  EXPECT_EQ(reply.ids.size(), 40u);
  EXPECT_TRUE(reply.records.empty());
  const Outcome& o = reply.outcome;
  EXPECT_EQ(o.decode_steps, 39);
  EXPECT_GT(o.prompt_seconds, 0);
  EXPECT_GE(o.receipt.prefill_seconds, o.prompt_seconds);
  expect_empty();  // the engine is the test's again
  // Counted: what one step at its length reads, for every length.
  kv::Sequence* const sequence = engine_->cache().create();
  engine_->feed(sequence, request.request.prompt);
  double bytes = 0;
  for (std::size_t i = 0; i + 1 < reply.ids.size(); ++i) {
    engine_->decode(sequence, reply.ids[i]);
    bytes += static_cast<double>(engine_->model().bytes_per_token()) +
             static_cast<double>(engine_->cache().stats(*sequence).kv_bytes_read);
  }
  EXPECT_EQ(o.decode_bytes, bytes);
  engine_->cache().release(sequence);
}

TEST_F(SchedulerTest, AskEndsWhenItIsCancelledAndThrowsWhatFailed) {
  start("f16", {.running = 1, .waiting = 4}, 512, 2048);
  std::atomic<bool> begun{false};
  const Answered reply =
      run::ask(*scheduler_, ask(text(*engine_, 0, 20), 400),
               {.text = [&](std::string_view) { begun = true; }, .cancelled = [&] { return begun.load(); }});
  EXPECT_NE(reply.outcome.finish, Finish::kNothing);  // it may have been faster
  EXPECT_GE(reply.ids.size(), 1u);
  try {
    run::ask(*scheduler_, ask(text(*engine_, 0, 1500), 4));
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kMemory) << e.what();
  }
  expect_empty();
}

TEST_F(SchedulerTest, DestructionEndsWhatRuns) {
  start("f16", {.running = 2, .waiting = 4, .step_tokens = 64});
  std::vector<std::shared_ptr<Log>> logs;
  for (int i = 0; i < 4; ++i) logs.push_back(submit(ask(text(*engine_, static_cast<std::size_t>(i), 50), 1500)));
  logs[0]->wait_for_tokens(2);
  scheduler_.reset();
  for (auto& log : logs) {
    EXPECT_EQ(log->dones(), 1);
    EXPECT_EQ(log->wait().finish, Finish::kCancelled);
  }
}

}  // namespace
}  // namespace kvasir::run
