#include "run/scheduler.hpp"

#include <algorithm>
#include <exception>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kv/spec.hpp"
#include "run/model_card.hpp"
#include "run/pooling.hpp"
#include "run/prefix.hpp"
#include "run/schedule/space.hpp"
#include "run/schedule/step.hpp"

namespace kvasir::run {
namespace {

TierStats tier_stats(const std::string& label, store::Tier& tier) {
  const store::Stats s = tier.stats();
  return {.tier = label,
          .bytes = s.usage.bytes,
          .budget = s.usage.budget,
          .records = s.usage.records,
          .hits = s.hits,
          .misses = s.misses,
          .inserts = s.inserts,
          .evictions = s.usage.evictions,
          .damaged = s.damaged,
          .foreign = s.foreign,
          .errors = s.errors,
          .dropped = s.dropped,
          .refused = s.refused,
          .queued = s.queue_records};
}

}  // namespace

std::string_view name(Failure failure) {
  constexpr std::string_view kNames[] = {"none", "queue_timeout", "no_room", "weights", "rows", "engine"};
  return kNames[static_cast<std::size_t>(failure)];
}

const OptionTable<SchedulerOptions>& scheduler_table() {
  using O = SchedulerOptions;
  static const OptionTable<O> table{
      "scheduler",
      {{"running", &O::running, {.help = "requests computed together", .low = 1, .high = 1024}},
       {"waiting", &O::waiting, {.help = "requests in the queue; more are refused", .low = 0, .high = 1 << 20}},
       {"step_tokens",
        &O::step_tokens,
        {.help = "tokens of one step while answers are being generated: less makes them smoother, prompts slower",
         .unit = "tokens",
         .low = 1,
         .high = 8192}},
       {"step_ms",
        &O::step_ms,
        {.help = "of such a step: prompts get what its answers leave of it, and half as long as those take at least; "
                 "0 is any time",
         .unit = "ms",
         .low = 0,
         .high = 3600000}}}};
  return table;
}

// In the order in which they need each other. All but SharedState are for the engine's thread alone.
struct Scheduler::Parts {
  Engine& engine;
  const SchedulerOptions& options;
  const ModelCard& card;
  store::Library* library;
  Drafting* drafting;

  SharedState shared{options.running, options.waiting};
  Admission admission{engine.cache(), engine.context(), options.running};
  Sharing sharing{engine.cache(), admission.running()};
  Blending blending{engine, options.blend, library};
  Reuse reuse{engine, library, sharing, blending, [this] { shared.wake_searched(); }};
  Speculation speculation{engine, drafting, options.running};
  StepPlanner planner{engine.cache(),
                      sharing,
                      {.running = options.running,
                       .step_tokens = options.step_tokens,
                       .chunk = engine.options().chunk,
                       .rows = engine.forward().max_tokens(),
                       .seconds = 1e-3 * options.step_ms}};
  AwaitedRows rows{engine.team(), [this] { shared.wake_searched(); }};
  Lifecycle lifecycle{engine, card, sharing, reuse, speculation, rows, shared};
  Step step{engine, admission, sharing, reuse, speculation, rows, planner, lifecycle, shared};
};

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options, std::string name, store::Library* library,
                     Drafting* drafting)
    : engine_(engine), options_(options), library_(library), drafting_(drafting) {
  card_ = card_of(engine.model().spec(), engine.model().file(), std::move(name));
  card_.context = engine.context();
  card_.k_codec = kv::codecs_text(engine.codecs(), kv::Side::kKeys);
  card_.v_codec = kv::codecs_text(engine.codecs(), kv::Side::kValues);
  card_.kv = kv_name(engine.options(), engine.model().spec());
  card_.kv_token = engine.cache().memory().bytes_per_token;
  card_.kv_token_f16 = f16_bytes_per_token(engine.options(), engine.model().spec());
  card_.running = options.running;
  parts_.reset(new Parts{engine, options_, card_, library, drafting});
  publish();
  if (drafting && library) drafting->open(*library);
  parts_->blending.prove_first(options.proves_blend);
  thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() {
  parts_->shared.stop();
  thread_.join();
}

RequestId Scheduler::submit(ServiceRequest request, std::shared_ptr<Listener> listener) {
  auto job = std::make_unique<Job>();
  job->asked = std::move(request);
  job->listener = std::move(listener);
  if (parts_->blending.options_of(job->asked).reuse == "off") job->asked.reuse = false;
  if (job->pools()) check_pooled(engine_.model(), card_, job->asked.request);
  parts_->speculation.check(job->asked);
  job->answer = std::make_unique<Answer>(engine_, job->asked.request);
  take_prefix(engine_, job->asked.request);  // behind what reads the prompt's tokens as text
  Space space = space_of(engine_, job->asked);
  job->space = std::move(space.name);
  job->adapters = std::move(space.adapters);
  const std::vector<std::int32_t>& prompt = job->asked.request.prompt;
  job->ids.reserve(prompt.size() + job->answer->most());
  job->ids = prompt;
  job->prompt = job->length();
  job->outcome.prompt_tokens = job->prompt;
  job->outcome.seed = job->answer->seed();
  job->at.submitted = steady_seconds();
  return parts_->shared.put(std::move(job));
}

void Scheduler::cancel(RequestId id) { parts_->shared.cancel(id); }

bool Scheduler::unpin(const ServiceRequest& asked) {
  if (!library_) return false;
  Request request = asked.request;
  check_prefix(engine_, request);
  take_prefix(engine_, request);
  return library_->unpin(space_of(engine_, asked).name, request.prompt);
}

bool Scheduler::drain(double seconds) { return parts_->shared.drain(seconds); }

ServiceStats Scheduler::stats() const {
  ServiceStats stats = parts_->shared.stats();
  if (library_)
    for (std::size_t i = 0; i < library_->tiers().size(); ++i)
      stats.tiers.push_back(tier_stats(library_->labels()[i], *library_->tiers()[i]));
  return stats;
}

void Scheduler::loop() {
  const Jobs& running = parts_->admission.running();
  const Admission::Queue& waiting = parts_->admission.waiting();
  Blending& blending = parts_->blending;
  for (;;) {
    const bool able = std::any_of(running.begin(), running.end(), [](const auto& job) { return job->runs(); });
    parts_->rows.beside_steps(able);
    if (!parts_->shared.wait(able || (running.empty() && (!waiting.empty() || blending.to_prove())))) break;
    take_arrived();
    try {
      admit();
      if (!running.empty())
        parts_->step.run();
      else if (blending.to_prove() && waiting.empty())
        blending.prove([this] { return parts_->shared.quiet(); });
    } catch (const std::exception& e) {
      // Nothing that a request asks for gets here; whatever it is, the engine's state is not to be trusted any more.
      parts_->shared.refuse();
      finish_all(Failure::kEngine, e.what());
      break;
    }
    parts_->admission.sweep();
    publish();
  }
  finish_all(Failure::kNone, {});
  if (drafting_) drafting_->keep();
  publish();
}

void Scheduler::finish_all(Failure failure, const std::string& why) {
  take_arrived();
  for (const auto& job : parts_->admission.waiting()) parts_->lifecycle.finish(*job, failure, why);
  for (const auto& job : parts_->admission.running()) parts_->lifecycle.finish(*job, failure, why);
  parts_->admission.sweep();
}

// What arrived is queued; what was cancelled ends, and what has waited too long.
void Scheduler::take_arrived() {
  Admission& admission = parts_->admission;
  auto [arrived, cancelled] = parts_->shared.take();
  for (auto& job : arrived) admission.enqueue(std::move(job));
  const auto asked = [&](const Job& job) {
    return std::find(cancelled.begin(), cancelled.end(), job.id) != cancelled.end();
  };
  for (const auto& job : admission.running())
    if (asked(*job)) parts_->lifecycle.finish(*job);
  const double now = steady_seconds();
  for (const auto& job : admission.waiting()) {
    if (asked(*job))
      parts_->lifecycle.finish(*job);
    else if (job->at.started == 0 && job->asked.timeout > 0 && now - job->at.submitted > job->asked.timeout)
      parts_->lifecycle.finish(*job, Failure::kQueueTimeout, "the request waited longer than its time-out");
  }
  admission.sweep();
}

void Scheduler::admit() {
  while (Job* job = parts_->admission.admit()) {
    parts_->lifecycle.start(*job);
    parts_->reuse.search(*job);
  }
}

void Scheduler::publish() {
  parts_->shared.publish(parts_->admission.running().size(), parts_->admission.waiting().size(), engine_);
}

}  // namespace kvasir::run
