// Many requests on one engine: continuous batching of decode steps with chunked prefill.
//
// One thread runs the engine. In every step each answer that grows gets its next token, and what is left of the step's
// time and token budget is split evenly between the prompts that are being computed, so that a
// long prompt neither stops nor is stopped by short ones, and answers keep their pace beside it. A request is admitted
// in order of arrival, when a sequence is free and the pages that its prompt needs are reserved. Should answers outgrow
// the pages all the same, the youngest request gives its pages back and is computed again later. Law 1 makes all of
// this invisible in what is computed: a prompt's logits are those that it has alone.
//
// With a library, what earlier requests computed is looked up and restored, and what requests compute is offered:
// chunks as they are sealed, tails at the end of the prompt, at the end of the answer, where the request asks for them,
// where it parts from an earlier prompt, and every 1,024 tokens, unless pages suffice. Requests of one tenant that
// begin alike compute the common part once: the later one waits until the earlier one is there, then takes a fork of
// its sequence. Rows that take time to compute, such as a picture's, come from a thread of their own: their prompt waits for
// them, and nobody else does.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "run/answer.hpp"
#include "run/blend.hpp"
#include "run/blend_gate.hpp"
#include "run/drafting.hpp"
#include "run/engine.hpp"
#include "run/pace.hpp"
#include "run/row_loader.hpp"
#include "run/service.hpp"
#include "store/library.hpp"

namespace kvasir::run {

struct SchedulerOptions {
  std::int32_t running = 8;        // requests that are computed together
  std::int32_t waiting = 256;      // requests in the queue
  std::int32_t step_tokens = 256;  // tokens of one step while answers grow; the engine's chunk when none do
  std::int32_t step_ms = 200;      // that such a step may take, see plan(); 0: any time
  BlendOptions blend;              // a table of its own
  // The self-test of blending runs in the constructor, as it always does with blend.reuse "blend"; else when nothing is
  // computed, once a request has asked for it.
  bool proves_blend = false;
};
const OptionTable<SchedulerOptions>& scheduler_table();

class Scheduler final : public Service {
 public:
  // REQUIRES: the engine was made for options.running sequences and rows of logits, and has its codecs. It must outlive
  // this and is used by nothing else; so must `library`, which may be null: nothing is kept beyond a request then. With
  // `drafting`, made for options.running texts, steps compute draft tokens, too.
  Scheduler(Engine& engine, const SchedulerOptions& options, std::string name, store::Library* library = nullptr,
            Drafting* drafting = nullptr);
  ~Scheduler() override;  // cancels what runs

  const ModelCard& card() const override { return card_; }
  const text::Tokenizer* tokenizer() const override { return engine_.tokenizer(); }
  RequestId submit(ServiceRequest request, std::shared_ptr<Listener> listener) override;
  void cancel(RequestId id) override;
  bool unpin(const std::string& tenant, std::span<const std::int32_t> prompt) override;
  bool drain(double seconds) override;
  ServiceStats stats() const override;

 private:
  struct Job;
  struct Lead {  // another job computes the first `share` tokens for this one, too
    Job* job = nullptr;
    std::int64_t share = 0;
  };
  using JobPtr = std::unique_ptr<Job>;

  // What one step computes. Planning changes no job.
  struct Plan {
    std::vector<model::Input> inputs;
    std::vector<Job*> jobs;    // whose they are
    std::int64_t answers = 0;  // of them, the first ones; the others are prompts
    std::int64_t rows = 0;     // of answers: their tokens, and draft tokens behind them
    bool bounded = false;      // by time
    bool reads_rows = false;   // log-probabilities or vectors of prompts are wanted
    void add(Job& job, std::int64_t count);
    void clear();
  };

  // All of these run on the engine's thread.
  void loop();
  void take_inbox();
  void fail_all(Failure failure, const std::string& why);
  void admit();
  bool admit(Job& job);
  std::int64_t promised_pages(const Job& job) const;
  // scheduler_reuse.cpp
  void search(Job& job);
  void begin(Job& job);
  std::vector<std::int64_t> checkpoints_of(const Job& job) const;
  void restore(Job& job, const store::Known& known);
  void explain_miss(Job& job, const store::Known& known) const;
  void offer(Job& job, store::Library::Offering offering);
  void offer_tail(Job& job, std::int64_t at);
  void offer_step(Job& job);
  void offer_end(Job& job);
  void offer_prompt(Job& job);
  void pin(Job& job);
  Lead find_leader(const Job& job) const;
  // First tokens of its prompt that are computed as every request computes them.
  std::int64_t exact_prompt(const Job& job) const;
  void begin_searched();
  void start_followers(Job& leader);
  void leave_followers(Job& leader);
  static void took_live(Job& job, std::int64_t tokens);
  // scheduler_blend.cpp
  BlendOptions blend_options(const ServiceRequest& asked) const;
  bool wants_blend(const Job& job) const;
  bool recall_blend();
  void prove_blend(const std::function<bool()>& go_on);
  void blend(Job& job);
  void relocate(Job& job);
  // scheduler_rows.cpp
  void want_rows();
  void want_rows(Job& job);
  void drop_rows(Job& job);
  void count_rows(Job& job) const;
  int step_threads() const;
  // scheduler_step.cpp
  void step();
  std::span<const float> compute(double& start);
  void plan();
  void plan_prompts();
  void learn_pace(double seconds);
  std::int64_t written() const;
  void count_step(std::int64_t prompt_rows, std::int64_t answer_tokens, double seconds);
  void account(Job& job, const model::Input& input, double now);
  std::int64_t stop_of(const Job& job, std::int64_t most) const;
  static std::int64_t whole_runs(const Job& job, std::int64_t count, std::int64_t room);
  bool preempt_for(const std::string& why);
  void lose_step(const std::string& why);
  void draft();
  void show(Job& job, int row, std::int64_t first, std::int64_t count);
  bool choose(Job& job, std::span<const float> row, std::int64_t cached);
  void advance(Job& job, std::span<const float> row);
  void verify(Job& job, std::span<const float> rows, std::size_t drafted, int row);
  void go_on(Job& job, bool more);
  void pool(Job& job, int row, std::int64_t count);
  void score(Job& job, int row, std::int64_t first, std::int64_t count);
  void shift(Job& job);
  static void say_rest(Job& job);
  void release(Job& job);
  PageCounts count_pages(const Job& job) const;
  void finish(Job& job, Failure failure = Failure::kNone, std::string error = {});
  // scheduler.cpp again
  void sweep();
  void publish();

  Engine& engine_;
  const SchedulerOptions options_;
  const std::string no_blend_;  // why nothing is relocated with this model; empty: it can be
  std::optional<BlendVerdict> blend_tested_;
  std::unique_ptr<BlendTest> blend_test_;  // that is to be run, or to go on
  std::string proof_failed_;               // why it could not be run the last time
  store::Library* const library_;
  Drafting* const drafting_;
  double token_microseconds_ = 0;  // of prompts, a moving mean
  Pace answer_pace_;               // of steps without prompts
  PromptPace prompt_pace_;         // of steps that were bounded by time
  ModelCard card_;
  std::vector<JobPtr> running_;  // in order of arrival
  Plan plan_;                    // of the step; kept, so that a step allocates nothing
  std::vector<Job*> prompts_;    // of the step, those with the fewest tokens left first
  std::vector<PromptPace::Slice> slices_;
  std::vector<Drafting::Text*> drafted_;  // of the step
  std::deque<JobPtr> waiting_;

  // Between the threads.
  mutable std::mutex mutex_;
  std::condition_variable wake_;   // something is in the inbox, or stop
  std::condition_variable empty_;  // nothing is left
  std::vector<JobPtr> inbox_;
  std::vector<RequestId> cancelled_;
  std::int64_t queued_ = 0;  // inbox and waiting
  bool searched_ = false;    // a search has ended, or some rows are computed
  bool draining_ = false;
  bool stop_ = false;
  RequestId next_id_ = 1;
  ServiceStats stats_;
  RowLoader rows_;
  std::thread thread_;
};

}  // namespace kvasir::run
