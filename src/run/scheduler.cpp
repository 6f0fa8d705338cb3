#include "run/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "kv/spec.hpp"
#include "model/relocation.hpp"
#include "run/model_card.hpp"
#include "run/pooling.hpp"
#include "run/scheduler_job.hpp"

namespace kvasir::run {
namespace {

// Tokens of every answer that pages are reserved for when a request is admitted. Answers may outgrow it, which
// preempts.
constexpr std::int64_t kReservedAnswer = 256;

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
  constexpr std::string_view kNames[] = {"none", "queue_timeout", "no_room", "weights", "engine"};
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

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options, std::string name, store::Library* library,
                     Drafting* drafting)
    : engine_(engine),
      options_(options),
      no_blend_(model::why_not_relocated(engine.model().spec(), engine.options().whole_windows)),
      library_(library),
      drafting_(drafting) {
  card_ = card_of(engine.model().spec(), engine.model().file(), std::move(name));
  card_.context = engine.context();
  card_.k_codec = kv::codecs_text(engine.codecs(), kv::Side::kKeys);
  card_.v_codec = kv::codecs_text(engine.codecs(), kv::Side::kValues);
  card_.kv = kv_name(engine.options(), engine.model().spec());
  card_.kv_token = engine.cache().memory().bytes_per_token;
  card_.kv_token_f16 = f16_bytes_per_token(engine.options(), engine.model().spec());
  card_.running = options.running;
  plan_.inputs.reserve(static_cast<std::size_t>(options.running));
  plan_.jobs.reserve(static_cast<std::size_t>(options.running));
  prompts_.reserve(static_cast<std::size_t>(options.running));
  slices_.reserve(static_cast<std::size_t>(options.running));
  drafted_.reserve(static_cast<std::size_t>(options.running));
  publish();
  if (drafting_ && library_) drafting_->open(*library_);
  if (library_ && no_blend_.empty() && (options.proves_blend || options.blend.reuse == "blend") && !recall_blend())
    prove_blend(nullptr);
  thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

RequestId Scheduler::submit(ServiceRequest request, std::shared_ptr<Listener> listener) {
  auto job = std::make_unique<Job>();
  job->asked = std::move(request);
  job->listener = std::move(listener);
  if (blend_options(job->asked).reuse == "off") job->asked.reuse = false;
  if (job->pools()) check_pooled(engine_.model(), card_, job->asked.request);
  if (!job->asked.request.runs.empty() && !job->asked.drafters) job->asked.drafters.emplace();  // drafters know tokens
  if (!job->asked.request.runs.empty() && !job->asked.drafters->empty())
    throw Error(Code::kBadInput, "names drafters, which know tokens alone, and the prompt has rows", "draft");
  if (job->asked.drafters) {
    if (!drafting_ && !job->asked.drafters->empty())
      throw Error(Code::kBadInput, "names drafters, but there are none (see --draft)", "draft");
    if (drafting_) drafting_->check_names(*job->asked.drafters);
  }
  job->answer = std::make_unique<Answer>(engine_, job->asked.request);
  const std::vector<std::int32_t>& prompt = job->asked.request.prompt;
  job->ids.reserve(prompt.size() + job->answer->most());
  job->ids = prompt;
  job->prompt = job->length();
  job->outcome.prompt_tokens = job->prompt;
  job->outcome.seed = job->answer->seed();
  job->at.submitted = steady_seconds();
  const std::lock_guard lock(mutex_);
  // What is queued and will be admitted at the next step does not wait.
  const std::int64_t free = std::max<std::int64_t>(options_.running - stats_.running, 0);
  if (draining_ || stop_ || queued_ >= options_.waiting + free) {
    ++stats_.rejected;
    if (draining_ || stop_) throw Error(Code::kBusy, "is ending, no further requests are taken", "server");
    throw Error(Code::kBusy, "has " + std::to_string(queued_) + " requests, as many as it may hold", "queue");
  }
  ++queued_;
  ++stats_.requests;
  const RequestId id = job->id = next_id_++;
  inbox_.push_back(std::move(job));
  wake_.notify_all();
  return id;
}

void Scheduler::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  wake_.notify_all();
}

bool Scheduler::drain(double seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto none = [&] { return queued_ == 0 && stats_.running == 0; };  // both as of one moment, see publish()
  return empty_.wait_for(lock, std::chrono::duration<double>(seconds), none);
}

ServiceStats Scheduler::stats() const {
  ServiceStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
  }
  if (library_)
    for (std::size_t i = 0; i < library_->tiers().size(); ++i)
      stats.tiers.push_back(tier_stats(library_->labels()[i], *library_->tiers()[i]));
  return stats;
}

void Scheduler::loop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool able = std::any_of(running_.begin(), running_.end(), [](const JobPtr& job) { return !job->waits(); });
      wake_.wait(lock, [&] {
        return stop_ || !inbox_.empty() || !cancelled_.empty() || searched_ || able ||
               (running_.empty() && (!waiting_.empty() || blend_test_));
      });
      searched_ = false;
      if (stop_) break;
    }
    take_inbox();
    try {
      admit();
      if (!running_.empty())
        step();
      else if (blend_test_ && waiting_.empty())
        prove_blend([this] {
          const std::lock_guard lock(mutex_);
          return inbox_.empty() && !stop_;
        });
    } catch (const std::exception& e) {
      // Nothing that a request asks for gets here; whatever it is, the engine's state is not to be trusted any more.
      fail_all(Failure::kEngine, e.what());
      break;
    }
    sweep();
    publish();
  }
  take_inbox();
  for (auto& job : waiting_) finish(*job);
  for (auto& job : running_) finish(*job);
  if (drafting_) drafting_->keep();
  sweep();
  publish();
}

void Scheduler::fail_all(Failure failure, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  take_inbox();
  for (auto& job : waiting_) finish(*job, failure, why);
  for (auto& job : running_) finish(*job, failure, why);
  sweep();
}

void Scheduler::take_inbox() {
  std::vector<JobPtr> arrived;
  std::vector<RequestId> cancelled;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(inbox_);
    cancelled.swap(cancelled_);
  }
  for (auto& job : arrived) waiting_.push_back(std::move(job));
  for (const RequestId id : cancelled) {
    for (auto& job : waiting_)
      if (job->id == id) finish(*job);
    for (auto& job : running_)
      if (job->id == id) finish(*job);
  }
  const double now = steady_seconds();
  for (auto& job : waiting_)
    if (!job->over && job->at.started == 0 && job->asked.timeout > 0 && now - job->at.submitted > job->asked.timeout)
      finish(*job, Failure::kQueueTimeout, "the request waited longer than its time-out");
  sweep();
}

void Scheduler::admit() {
  while (!waiting_.empty() && static_cast<std::int32_t>(running_.size()) < options_.running) {
    if (!admit(*waiting_.front())) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// Pages that a job has or may want soon.
std::int64_t Scheduler::promised_pages(const Job& job) const {
  const std::int64_t most = job.asked.request.max_tokens;
  const std::int64_t answer = most < 0 ? kReservedAnswer : std::min(kReservedAnswer, most - job.answer->size());
  return engine_.cache().rules().sealed_pages(std::min(job.length() + answer, engine_.context()));
}

// Finds out where the job begins, when there is room for it. False: it has to wait.
bool Scheduler::admit(Job& job) {
  kv::Cache& cache = engine_.cache();
  std::int64_t pages = promised_pages(job);
  for (const auto& r : running_) pages += r->over ? 0 : promised_pages(*r);
  if (!running_.empty() && pages > cache.memory().pages) return false;
  if (job.at.started == 0) {
    job.at.started = steady_seconds();
    job.weights_before = engine_.model().layers().stats();
    job.outcome.receipt.queue_seconds = job.at.started - job.at.submitted;
    job.listener->started();
  }
  search(job);
  if (!job.kept.search || job.kept.search->ready()) begin(job);
  return true;
}

void Scheduler::sweep() {
  const auto over = [](const JobPtr& job) { return job->over; };
  std::erase_if(running_, over);
  std::erase_if(waiting_, over);
}

void Scheduler::publish() {
  const kv::MemoryPlan& plan = engine_.cache().memory();
  const kv::CacheStats cache = engine_.cache().stats();
  const std::lock_guard lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.waiting = static_cast<std::int64_t>(waiting_.size());
  queued_ = static_cast<std::int64_t>(waiting_.size() + inbox_.size());
  stats_.kv_bytes = static_cast<std::uint64_t>(plan.pages - cache.free_pages) * plan.chunk_bytes;
  stats_.kv_budget = static_cast<std::uint64_t>(plan.total());
  stats_.pool = {plan.pages, cache.free_pages, cache.shared_pages};
  stats_.streams = engine_.model().layers().streams();
  stats_.weights = engine_.model().layers().stats();
  stats_.disk = cache.disk;
  stats_.device = cache.device;
  if (running_.empty() && waiting_.empty() && inbox_.empty()) empty_.notify_all();
}

}  // namespace kvasir::run
