// For tests of reuse: an engine with a scheduler and a library, conversations, and the comparison of their answers.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/patience_fixture.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "run/suite_fixture.hpp"
#include "store/decorator_fixture.hpp"
#include "store/open.hpp"

namespace kvasir::run::testing {

inline const std::string kSource = KVASIR_SOURCE_DIR;
inline const std::string kBooks = kSource + "/models/kvasir-books-4m.gguf";

struct Reply {
  std::vector<TokenRecord> tokens;
  Outcome outcome;
  std::vector<std::int32_t> ids() const {
    std::vector<std::int32_t> list;
    for (const TokenRecord& t : tokens) list.push_back(t.id);
    return list;
  }
};

class Waiter final : public Listener {
 public:
  void pieces(std::span<const Piece> pieces) override {
    for (const Piece& p : pieces)
      if (p.token.id >= 0) reply_.tokens.push_back(p.token);
  }
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    reply_.outcome = outcome;
    done_ = true;
    changed_.notify_all();
  }
  Reply wait() {
    std::unique_lock lock(mutex_);
    wait_patiently(changed_, lock, [&] { return done_; });
    return reply_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Reply reply_;
  bool done_ = false;
};

// An engine with a scheduler and a library over `tiers`. `described`: what describe_cache says, as another build says
// it.
class Server {
 public:
  Server(
      const std::string& kv, const std::vector<std::string>& tiers, const store::Wrap& wrap = {},
      const std::string& model = kBooks, const DraftOptions& drafts = {},
      const std::function<std::string(std::string)>& described = [](std::string text) { return text; },
      const std::function<void(EngineOptions&, Engine::Needs&)>& adjust = {}, bool proves_blend = false) {
    EngineOptions o;
    o.model = model;
    o.ctx = 3000;
    o.kv = kv;
    o.threads = 2;
    Engine::Needs needs{.sequences = 4, .pool_tokens = 8192, .logits = 4, .drafted = drafted_rows(drafts, 4)};
    if (adjust) adjust(o, needs);
    engine_ = std::make_unique<Engine>(as_the_suite_says(o), as_the_suite_says(needs));
    if (drafts.wanted()) drafting_ = std::make_unique<Drafting>(*engine_, drafts, needs.sequences);
    std::vector<std::shared_ptr<store::Tier>> opened;
    for (const std::string& spec : tiers) opened.push_back(store::open_tier(spec, wrap));
    engine_->forward().observe([this](int layer, auto...) { steps_ += layer == 0; });
    library_ = std::make_unique<store::Library>(
        engine_->cache(), store::fingerprint_of(described(describe_cache(*engine_))), std::move(opened));
    scheduler_ = std::make_unique<Scheduler>(*engine_,
                                             SchedulerOptions{.running = needs.sequences, .proves_blend = proves_blend},
                                             "test", library_.get(), drafting_.get());
  }
  Reply ask(const std::vector<std::int32_t>& prompt, std::int32_t tokens, bool reuse, const std::string& tenant = "") {
    ServiceRequest r;
    r.request.prompt = prompt;
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.request.top_logprobs = 5;
    r.reuse = reuse;
    r.tenant = tenant;
    Reply reply = submit(std::move(r))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    return reply;
  }
  std::shared_ptr<Waiter> submit(ServiceRequest request) {
    auto waiter = std::make_shared<Waiter>();
    scheduler_->submit(std::move(request), waiter);
    return waiter;
  }
  RequestId submit_to(ServiceRequest request, std::shared_ptr<Listener> listener) {
    return scheduler_->submit(std::move(request), std::move(listener));
  }
  Reply warm(const std::vector<std::int32_t>& prompt, double seconds = 3600) {
    ServiceRequest r;
    r.request.prompt = prompt;
    r.request.max_tokens = 0;
    r.pin = true;
    r.pin_seconds = seconds;
    auto waiter = std::make_shared<Waiter>();
    scheduler_->submit(std::move(r), waiter);
    return waiter->wait();
  }
  bool unpin(const std::vector<std::int32_t>& prompt, const std::string& tenant = "") {
    ServiceRequest r;
    r.tenant = tenant;
    r.request.prompt = prompt;
    return unpin(r);
  }
  bool unpin(const ServiceRequest& asked) { return scheduler_->unpin(asked); }
  std::uint64_t pinned_bytes() const { return library_->tiers()[0]->stats().usage.pinned_bytes; }
  void flush() {
    for (const auto& tier : library_->tiers()) EXPECT_TRUE(tier->flush().ok());
  }
  store::Library& library() { return *library_; }
  void cancel(RequestId id) { scheduler_->cancel(id); }
  int steps() const { return steps_; }  // of the model, so far
  ServiceStats stats() const { return scheduler_->stats(); }
  const text::Tokenizer& tokenizer() const { return *engine_->tokenizer(); }
  const model::Model& model() const { return engine_->model(); }

 private:
  std::atomic<int> steps_{0};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<store::Library> library_;
  std::unique_ptr<Drafting> drafting_;
  std::unique_ptr<Scheduler> scheduler_;
};

// Texts of a conversation's turns, of all lengths.
inline std::vector<std::vector<std::int32_t>> turns(const text::Tokenizer& tokenizer, std::size_t count,
                                                    std::size_t from) {
  const std::vector<std::int32_t> all = tokenizer.encode(read_text_file(kSource + "/docs/results/reasons.md"));
  const std::size_t sizes[] = {37, 120, 8, 300, 1, 64, 129, 200, 16, 90};
  std::vector<std::vector<std::int32_t>> list;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t n = sizes[(i + from) % std::size(sizes)];
    list.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(from),
                      all.begin() + static_cast<std::ptrdiff_t>(from + n));
    from += n;
  }
  EXPECT_LT(from, all.size());
  return list;
}

inline void expect_equal_bits(const Reply& a, const Reply& b) {
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    ASSERT_EQ(a.tokens[i].id, b.tokens[i].id) << i;
    ASSERT_EQ(a.tokens[i].logprob, b.tokens[i].logprob) << i;
    for (std::size_t k = 0; k < a.tokens[i].best.size(); ++k)
      ASSERT_EQ(a.tokens[i].best[k].logprob, b.tokens[i].best[k].logprob) << i;
  }
}

// Tokens [begin, end) of a prompt, whose first one was computed at `made_at`; page i of that text is page i of Moved.
inline store::Moved::Run moved_run(std::int64_t begin, std::int64_t end, std::int64_t made_at) {
  store::Moved::Run run{begin, end, made_at, {}};
  for (std::int64_t i = made_at / 128; i <= (made_at + end - begin - 1) / 128; ++i)
    run.pages.push_back(static_cast<std::size_t>(i));
  return run;
}

inline void append(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace kvasir::run::testing
