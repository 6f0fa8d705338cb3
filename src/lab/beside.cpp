#include "lab/beside.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/splitmix.hpp"

namespace kvasir::lab {
namespace {

// When things happened to a request, in steady_seconds.
class Clocked final : public run::Listener {
 public:
  void prefill(std::int64_t, std::int64_t, std::int64_t) override {
    note([&] { begun_ = true; });
  }
  void pieces(std::span<const run::Piece> pieces) override {
    if (!pieces.empty() && pieces.front().token.id >= 0) note([&] { tokens_.push_back(steady_seconds()); });
  }
  void done(const run::Outcome& outcome) override {
    note([&] {
      outcome_ = outcome;
      done_ = true;
    });
  }

  // Wait until the first step of its prompt was computed, its first token is there, it is over.
  void wait_begun() {
    wait([&] { return begun_; });
  }
  void wait_token() {
    wait([&] { return !tokens_.empty(); });
  }
  std::vector<double> wait_done() {
    wait([] { return false; });
    const std::lock_guard lock(mutex_);
    if (outcome_.failure != run::Failure::kNone) throw Error(Code::kUnsupported, outcome_.error, "bench");
    return tokens_;
  }
  bool has_token() {
    const std::lock_guard lock(mutex_);
    return done_ || !tokens_.empty();
  }

 private:
  template <class F>
  void note(F f) {
    const std::lock_guard lock(mutex_);
    f();
    changed_.notify_all();
  }
  template <class F>
  void wait(F there) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ || there(); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, done_ = false;
  std::vector<double> tokens_;
  run::Outcome outcome_;
};

struct Asked {
  std::shared_ptr<Clocked> clock = std::make_shared<Clocked>();
  double at = 0;

  double first_token() { return clock->wait_done().at(0) - at; }
};

class BesideBench {
 public:
  BesideBench(run::Engine& engine, const run::SchedulerOptions& scheduler, const BesideOptions& options)
      : o_(options),
        vocab_(static_cast<std::uint64_t>(engine.model().spec().vocab)),
        scheduler_(engine, scheduler, "bench") {}

  BesideRun run() {
    BesideRun r;
    r.short_alone = ask(o_.shorter, 1).first_token();
    r.alone = ask(o_.prompt, 1).first_token();
    add_gaps(ask(o_.shorter, o_.tokens), 0, 1e300, &r.gaps_alone);

    Asked answer = ask(o_.shorter, o_.tokens);
    answer.clock->wait_token();
    Asked prompt = ask(o_.prompt, 1);
    std::vector<Asked> answers{answer};
    while (answers.back().clock->wait_done(),
           !prompt.clock->has_token() && (o_.answers == 0 || static_cast<std::int32_t>(answers.size()) < o_.answers))
      answers.push_back(ask(o_.shorter, o_.tokens));
    r.beside = prompt.first_token();
    for (Asked& a : answers) add_gaps(std::move(a), prompt.at, prompt.at + r.beside, &r.gaps);

    prompt = ask(o_.prompt, 1);
    prompt.clock->wait_begun();
    r.short_behind = ask(o_.shorter, 1).first_token();
    prompt.clock->wait_done();
    return r;
  }

 private:
  Asked ask(std::int32_t prompt, std::int32_t tokens) {
    run::ServiceRequest r;
    for (std::int32_t i = 0; i < prompt; ++i)
      r.request.prompt.push_back(static_cast<std::int32_t>(splitmix64(state_) % vocab_));
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
    r.reuse = false;
    Asked asked;
    asked.at = steady_seconds();
    scheduler_.submit(std::move(r), asked.clock);
    return asked;
  }

  // Those that ended in a span of time.
  static void add_gaps(Asked asked, double from, double to, std::vector<float>* gaps) {
    const std::vector<double> at = asked.clock->wait_done();
    for (std::size_t i = 1; i < at.size(); ++i)
      if (at[i] > from && at[i] <= to) gaps->push_back(static_cast<float>(at[i] - at[i - 1]));
  }

  const BesideOptions o_;
  const std::uint64_t vocab_;
  std::uint64_t state_ = 1;
  run::Scheduler scheduler_;
};

}  // namespace

const OptionTable<BesideOptions>& beside_table() {
  using O = BesideOptions;
  static const OptionTable<O> table{
      "beside",
      {{"prompt", &O::prompt, {.help = "of the long prompt", .unit = "tokens", .low = 1, .high = 1 << 24}},
       {"tokens", &O::tokens, {.help = "of an answer", .unit = "tokens", .low = 2, .high = 1 << 20}},
       {"short_tokens",
        &O::shorter,
        {.help = "of the answers' prompts and of the short one", .unit = "tokens", .low = 1, .high = 1 << 20}},
       {"answers",
        &O::answers,
        {.help = "one after the other while the long prompt is computed; 0 is as many as it takes",
         .low = 0,
         .high = 1 << 20}},
       {"runs", &O::runs, {.help = "of each measurement; medians are printed", .low = 1, .high = 1000}}}};
  return table;
}

std::vector<BesideRun> measure_beside(run::Engine& engine, const run::SchedulerOptions& scheduler,
                                      const BesideOptions& options,
                                      const std::function<bool(std::int64_t done, std::int64_t total)>& poll) {
  BesideBench bench(engine, scheduler, options);
  std::vector<BesideRun> runs;
  while (static_cast<std::int32_t>(runs.size()) < options.runs &&
         poll(static_cast<std::int64_t>(runs.size()), options.runs))
    runs.push_back(bench.run());
  return runs;
}

}  // namespace kvasir::lab
