// A Service for tests: it generates known pieces at a chosen pace, and remembers what it was asked.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "run/service.hpp"
#include "run/stop.hpp"
#include "text/stream.hpp"
#include "text/vocabularies_fixture.hpp"

namespace kvasir::serve {

struct FakeOptions {
  std::string name = "org/fake-model";
  double delay = 0;           // seconds before each token
  int most_queued = 1 << 20;  // requests at once; more are refused
  int most_running = 1 << 20;
  std::size_t start_at = 0;         // nothing starts before so many requests were submitted
  int tokens = 5;                   // of an answer without max_tokens, which then ends by itself
  bool ends = false;                // the answer ends by itself after `tokens`, whatever max_tokens says
  std::vector<std::string> script;  // token i is script[i % size]; empty: "w0 ", "w1 ", ...
  std::string fail;                 // not empty: the request fails with this after its first token
  std::int64_t miss_token = -1;
  std::string pin_error;
  // Not empty: the answer's ids, of the vocabulary, up to one that ends a text.
  std::function<std::vector<std::int32_t>(const run::Request&)> answer;
  std::optional<weights::Metadata> vocabulary;  // instead of the byte-level one
  bool end_without_text = false;                // Finish::kNothing
  std::int64_t reused = 0;
  std::int64_t context = 4096;
  bool tokenizer = true;
  bool fills_gaps = false;   // its vocabulary has tokens for that
  int prefill_steps = 0;     // parts in which prompts are computed ...
  double prefill_delay = 0;  // ... and seconds of each
  std::int64_t thinking_tokens = -1;
  std::int32_t labels = 0;                         // of a head that ranks: scores are the prompt's length, 0, 0 ...
  std::function<void(std::size_t)> before_submit;  // gets how many requests were submitted; may wait
};

class FakeService : public run::Service {
 public:
  explicit FakeService(FakeOptions options = {}) : options_(std::move(options)) {
    if (options_.tokenizer) {
      weights::Metadata vocabulary = options_.vocabulary ? *options_.vocabulary : text::byte_level_vocabulary("gpt-2");
      if (options_.fills_gaps)
        for (const char* name : {"fim_pre", "fim_suf", "fim_mid", "fim_rep", "fim_sep"})
          vocabulary.set(fmt::format("tokenizer.ggml.{}_token_id", name), std::int64_t{gap_id(name)});
      tokenizer_ = text::make_tokenizer(vocabulary);
    }
    card_ = {.name = options_.name,
             .architecture = "fake",
             .context = options_.context,
             .vocabulary = tokenizer_ ? tokenizer_->size() : 300,
             .k_codec = "f16",
             .v_codec = "f16",
             .running = 2};
    card_.width = 4;
    card_.pooling = model::Pooling::kMean;
    card_.labels = options_.labels;
    thread_ = std::thread([this] { loop(); });
  }
  ~FakeService() override {
    ending_.store(true);
    wake_.notify_all();
    thread_.join();
  }

  // With fills_gaps: the token of that name, some byte's.
  static std::int32_t gap_id(std::string_view name) {
    return name == "fim_pre" ? 1 : name == "fim_suf" ? 2 : name == "fim_mid" ? 3 : name == "fim_rep" ? 4 : 5;
  }

  const run::ModelCard& card() const override { return card_; }
  const text::Tokenizer* tokenizer() const override { return tokenizer_.get(); }

  run::RequestId submit(run::ServiceRequest request, std::shared_ptr<run::Listener> listener) override {
    if (options_.before_submit) options_.before_submit(requests().size());
    const std::lock_guard lock(mutex_);
    if (static_cast<int>(jobs_.size()) >= options_.most_queued) {
      ++rejected_;
      throw Error(Code::kBusy, "the queue is full", "queue");
    }
    jobs_.emplace_back(++last_id_, std::move(request), std::move(listener));
    requests_.push_back(jobs_.back().request);
    most_at_once_ = std::max(most_at_once_, jobs_.size());
    wake_.notify_all();
    return last_id_;
  }

  void cancel(run::RequestId id) override {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs_)
      if (job.id == id) job.cancelled = true;
    wake_.notify_all();
  }

  bool unpin(const run::ServiceRequest& asked) override {
    const std::lock_guard lock(mutex_);
    const auto pinned = [&](const run::ServiceRequest& r) {
      return r.pin && r.tenant == asked.tenant && r.request.lora == asked.request.lora &&
             r.request.prompt == asked.request.prompt;
    };
    const auto it = std::find_if(requests_.begin(), requests_.end(), pinned);
    if (it == requests_.end()) return false;
    it->pin = false;
    return true;
  }
  bool drain(double) override { return true; }

  run::ServiceStats stats() const override {
    const std::lock_guard lock(mutex_);
    run::ServiceStats s;
    s.running = static_cast<std::int64_t>(jobs_.size());
    s.kv_bytes = 1000;
    s.kv_budget = 2000;
    s.requests = requests_.size();
    s.cancelled = cancelled_;
    s.rejected = rejected_;
    s.prompt_tokens = 40;
    s.reused_tokens = 8;
    s.relocated_tokens = 2;
    s.generated_tokens = 21;
    s.stopped = 2, s.cut = 1;
    s.pool = {.pages = 10, .free = 6, .shared = 2};
    s.work = {.steps = 4,
              .answers = 10,
              .most_answers = 3,
              .answer_tokens = 20,
              .prompt_tokens = 30,
              .answer_seconds = 2,
              .prompt_seconds = 0.5};
    s.drafts = {.steps = 4, .tokens = 9, .drafted = 8, .accepted = 5, .histogram = {1, 1, 2}};
    s.tiers = {{.tier = "ram",
                .bytes = 10,
                .budget = 20,
                .records = 3,
                .hits = 4,
                .misses = 5,
                .evictions = 6,
                .damaged = 7,
                .foreign = 8,
                .errors = 9,
                .dropped = 10,
                .queued = 11}};
    s.device = {.name = "card", .held_pages = 12, .folded_groups = 13};
    s.products = {.name = "card", .from_rows = 64, .products = 14};
    return s;
  }

  std::vector<run::ServiceRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::uint64_t cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }
  std::size_t most_at_once() const {
    const std::lock_guard lock(mutex_);
    return most_at_once_;
  }

 private:
  struct Job {
    Job(run::RequestId new_id, run::ServiceRequest r, std::shared_ptr<run::Listener> l)
        : id(new_id), request(std::move(r)), listener(std::move(l)), stops(request.request.stop) {
      submitted = due = steady_seconds();
    }
    run::RequestId id;
    run::ServiceRequest request;
    std::shared_ptr<run::Listener> listener;
    run::StopMatcher stops;
    double submitted, due;
    bool started = false;
    int made = 0;
    int stopped_by = -1;
    std::vector<std::int32_t> ids;  // with FakeOptions::answer
    std::optional<text::TextStream> stream;
    std::atomic<bool> cancelled{false};
  };

  void loop() {
    while (!ending_.load()) {
      std::vector<Job*> work;
      bool hold = false;
      {
        std::unique_lock lock(mutex_);
        if (jobs_.empty() || !any_due())
          wake_.wait_for(lock, std::chrono::duration<double>(jobs_.empty() ? 0.05 : 0.0005));
        hold = requests_.size() < options_.start_at;
        for (Job& job : jobs_) work.push_back(&job);  // only this thread removes jobs
      }
      int running = 0;
      for (Job* job : work) {
        const bool waits = !job->started && (hold || running >= options_.most_running);
        running += !waits;
        if (step(*job, waits)) remove(job);
      }
    }
    for (Job& job : jobs_) end(job, run::Finish::kCancelled);
  }

  bool any_due() const {
    const double now = steady_seconds();
    for (const Job& job : jobs_)
      if (job.due <= now || job.cancelled.load()) return true;
    return false;
  }

  // True: it is done.
  bool step(Job& job, bool waits) {
    if (job.cancelled.load()) return end(job, run::Finish::kCancelled);
    const double now = steady_seconds();
    if (waits) {
      if (job.request.timeout > 0 && now - job.submitted > job.request.timeout)
        return end(job, run::Finish::kCancelled, "waited too long", run::Failure::kQueueTimeout);
      return false;
    }
    if (!job.started) {
      job.started = true;
      job.listener->started();
      compute(job);
      job.due = now + options_.delay;
    }
    const run::Request& r = job.request.request;
    if (r.pooling != model::Pooling::kNone) {
      job.listener->pooled(vector_of(r));
      return end(job, run::Finish::kEnd);
    }
    const int most = r.max_tokens;
    if (most == 0) return end(job, run::Finish::kLength);
    if (now < job.due) return false;
    job.due += options_.delay;
    if (options_.end_without_text) return end(job, run::Finish::kNothing);
    if (options_.answer) return say(job, most);
    if (!options_.fail.empty() && job.made > 0)
      return end(job, run::Finish::kEnd, options_.fail, run::Failure::kEngine);
    const bool stopped = emit(job);
    if (stopped) return end(job, run::Finish::kStop);
    if (most > 0 && job.made >= most) return flush(job), end(job, run::Finish::kLength);
    if ((most < 0 || options_.ends) && job.made >= options_.tokens) return flush(job), end(job, run::Finish::kEnd);
    return false;
  }

  // Of four elements: how many tokens, the first and the last one, where the second text begins. Or the scores.
  std::vector<float> vector_of(const run::Request& r) const {
    const auto n = static_cast<float>(r.prompt.size());
    if (r.pooling == model::Pooling::kRank) {
      std::vector<float> scores(static_cast<std::size_t>(options_.labels));
      scores.at(0) = n / 16;
      return scores;
    }
    return {n, static_cast<float>(r.prompt.front()), static_cast<float>(r.prompt.back()), static_cast<float>(r.second)};
  }

  // The prompt, and its log-probabilities where they are wanted: -0.25, -0.5 ...
  void compute(Job& job) {
    const run::Request& r = job.request.request;
    const auto total = static_cast<std::int64_t>(r.prompt.size());
    for (int i = 1; i <= options_.prefill_steps; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.prefill_delay));
      job.listener->prefill(options_.reused + (total - options_.reused) * i / options_.prefill_steps, total,
                            options_.reused);
    }
    if (!r.prompt_logprobs) return;
    std::vector<run::TokenRecord> tokens;
    for (std::size_t i = 0; i < r.prompt.size(); ++i) {
      const float p = i == 0 ? std::numeric_limits<float>::quiet_NaN() : -0.25f * static_cast<float>(i);
      auto& token = tokens.emplace_back(run::TokenRecord{.id = r.prompt[i], .logprob = p, .best = {}});
      for (int b = 0; i > 0 && b < r.top_logprobs; ++b) token.best.push_back({.id = 'a' + b, .logprob = -0.125f});
    }
    const auto half = static_cast<std::ptrdiff_t>(tokens.size() / 2);
    job.listener->scored({tokens.begin(), tokens.begin() + half});
    job.listener->scored({tokens.begin() + half, tokens.end()});
  }

  // The next of the ids that were chosen beforehand.
  bool say(Job& job, int most) {
    const run::Request& r = job.request.request;
    if (job.made == 0) {
      job.ids = options_.answer(r);
      job.stream.emplace(*tokenizer_, r.prompt.empty() ? -1 : r.prompt.back(), false, r.shown);
    }
    const std::int32_t id = job.ids.at(static_cast<std::size_t>(job.made++));
    const bool ends = tokenizer_->is_eog(id);
    const std::string text = ends ? job.stream->flush() : job.stream->push(id);
    const run::TokenRecord token{.id = id, .logprob = -0.5f, .best = {}};
    const run::Piece piece{.token = token, .text = text};
    job.listener->pieces({&piece, 1});
    if (ends) return end(job, run::Finish::kEnd);
    return most > 0 && job.made >= most && end(job, run::Finish::kLength);
  }

  bool emit(Job& job) {
    const auto i = static_cast<std::size_t>(job.made++);
    const std::string whole =
        options_.script.empty() ? fmt::format("w{} ", i) : options_.script[i % options_.script.size()];
    const auto released = job.stops.feed(whole);
    job.stopped_by = released.which;
    run::TokenRecord token{.id = static_cast<std::int32_t>('a' + i % 26), .logprob = -0.5f, .best = {}};
    for (int b = 0; b < job.request.request.top_logprobs; ++b)
      token.best.push_back({.id = 'a' + b, .logprob = -0.5f - static_cast<float>(b)});
    const run::Piece piece{.token = token, .text = released.text};
    job.listener->pieces({&piece, 1});
    return released.stopped;
  }

  void flush(Job& job) {
    const std::string_view rest = job.stops.finish();
    if (rest.empty()) return;
    const run::TokenRecord none{.id = -1, .logprob = 0, .best = {}};
    const run::Piece piece{.token = none, .text = rest};
    job.listener->pieces({&piece, 1});
  }

  bool end(Job& job, run::Finish finish, std::string error = {}, run::Failure failure = run::Failure::kNone) {
    run::Outcome o;
    o.finish = finish;
    o.stopped_by = job.stopped_by;
    o.failure = failure;
    o.error = std::move(error);
    o.prompt_tokens = static_cast<std::int64_t>(job.request.request.prompt.size());
    o.completion_tokens = job.made;
    o.seed = std::max<std::int64_t>(job.request.request.sampling.seed, 0);
    o.receipt.reused_tokens = std::min(options_.reused, o.prompt_tokens);
    if (o.receipt.reused_tokens > 0) o.receipt.spans.push_back({0, o.receipt.reused_tokens, "ram"});
    o.receipt.spans.push_back({o.receipt.reused_tokens, o.prompt_tokens, "computed"});
    o.receipt.miss = "the prompt ended";
    o.receipt.miss_token = options_.miss_token;
    o.receipt.pin_error = options_.pin_error;
    o.thinking_tokens = options_.thinking_tokens;
    if (finish == run::Finish::kCancelled && o.error.empty()) {
      const std::lock_guard lock(mutex_);
      ++cancelled_;
    }
    job.listener->done(o);
    return true;
  }

  void remove(const Job* job) {
    const std::lock_guard lock(mutex_);
    jobs_.remove_if([&](const Job& j) { return &j == job; });
  }

  const FakeOptions options_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  run::ModelCard card_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Job> jobs_;
  std::vector<run::ServiceRequest> requests_;
  std::uint64_t cancelled_ = 0, rejected_ = 0;
  std::size_t most_at_once_ = 0;
  run::RequestId last_id_ = 0;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace kvasir::serve
