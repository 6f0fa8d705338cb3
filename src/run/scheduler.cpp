#include "run/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "kv/spec.hpp"
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
          .refused = s.refused};
}

}  // namespace

std::string_view name(Failure failure) {
  constexpr std::string_view kNames[] = {"none", "queue_timeout", "no_room", "engine"};
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
         .high = 8192}}}};
  return table;
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options, std::string name, store::Library* library)
    : engine_(engine), options_(options), library_(library) {
  card_.name = std::move(name);
  card_.architecture = engine.model().spec().arch;
  card_.context = engine.context();
  card_.vocabulary = static_cast<std::int32_t>(engine.model().spec().vocab);
  card_.chat_template = engine.model().file().metadata().get_string("tokenizer.chat_template").value_or("");
  card_.k_codec = kv::codecs_text(engine.codecs(), kv::Side::kKeys);
  card_.v_codec = kv::codecs_text(engine.codecs(), kv::Side::kValues);
  publish();
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
  job->answer = std::make_unique<Answer>(engine_, job->asked.request);
  job->ids = job->asked.request.prompt;
  job->prompt = job->length();
  job->outcome.prompt_tokens = job->prompt;
  job->outcome.seed = job->answer->seed();
  job->submitted = steady_seconds();
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
               (running_.empty() && !waiting_.empty());
      });
      searched_ = false;
      if (stop_) break;
    }
    take_inbox();
    try {
      admit();
      if (!running_.empty()) step();
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
    if (!job->over && job->started == 0 && job->asked.timeout > 0 && now - job->submitted > job->asked.timeout)
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
  return engine_.cache().sealed_pages_at(std::min(job.length() + answer, engine_.context()));
}

// Finds out where the job begins, when there is room for it. False: it has to wait.
bool Scheduler::admit(Job& job) {
  kv::Cache& cache = engine_.cache();
  std::int64_t pages = promised_pages(job);
  for (const auto& r : running_) pages += r->over ? 0 : promised_pages(*r);
  if (!running_.empty() && pages > cache.memory().pages) return false;
  if (job.started == 0) {
    job.started = steady_seconds();
    job.outcome.receipt.queue_seconds = job.started - job.submitted;
    job.listener->started();
  }
  search(job);
  if (!job.search || job.search->ready()) begin(job);
  return true;
}

// How far a job's prompt may be computed in one go of at most `most` tokens: to its end, or to where a follower parts.
// Checkpoints are passed as long as their tails can be made afterwards: a step of a few tokens reads all weights, too.
std::int64_t Scheduler::stop_of(const Job& job, std::int64_t most) const {
  std::int64_t stop = std::min(job.length(), job.cached() + most);
  for (const auto& follower : running_)
    if (follower->leader == &job && follower->share > job.cached()) stop = std::min(stop, follower->share);
  const kv::Cache& cache = engine_.cache();
  if (!job.checkpoints.empty() && job.checkpoints.back() < stop &&
      cache.sealed_pages_at(job.checkpoints.back()) < cache.sealed_pages_at(stop))
    stop = job.checkpoints.back();
  return stop;
}

void Scheduler::plan(std::vector<model::Input>* inputs, std::vector<Job*>* jobs) {
  inputs->clear();
  jobs->clear();
  for (auto& job : running_)
    if (!job->over && job->search && job->search->ready()) begin(*job);
  for (auto& job : running_) {
    if (!job->waits()) start_followers(*job);
    auto& points = job->checkpoints;
    while (!points.empty() && points.back() <= job->cached()) points.pop_back();
  }
  const auto add = [&](Job& job, std::int64_t count) {
    const std::int64_t from = job.cached();
    const bool last = from + count == job.length();
    const std::span<const std::int32_t> ids(job.ids);
    inputs->push_back({job.sequence, ids.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(count)),
                       last ? 1 : 0, job.decodes()});
    jobs->push_back(&job);
  };
  std::int64_t prompts = 0;
  for (auto& job : running_) {
    if (job->over || job->waits()) continue;
    job->decodes() ? add(*job, 1) : void(++prompts);
  }
  if (prompts == 0) return;
  const auto decodes = static_cast<std::int64_t>(jobs->size());
  const std::int64_t wanted = decodes > 0 ? options_.step_tokens : engine_.options().chunk;
  // However many answers grow, a quarter of the step is for prompts: with less they would come in token by token.
  const std::int64_t share = std::max({prompts, wanted - decodes, wanted / 4});
  std::int64_t budget = std::min<std::int64_t>(share, engine_.forward().max_tokens() - decodes);
  for (auto& job : running_) {
    if (job->over || job->waits() || job->decodes()) continue;
    const std::int64_t count = stop_of(*job, budget / prompts) - job->cached();
    add(*job, count);
    budget -= count;
    --prompts;
  }
}

// Gives back the pages of the youngest job so that the others can go on. False: there is only one.
bool Scheduler::preempt_for(const std::string& why) {
  Job* youngest = nullptr;
  int alive = 0;
  for (auto& job : running_)
    if (!job->over) ++alive, youngest = job.get();
  if (alive < 2) {
    if (youngest) {
      youngest->answer->stop(Finish::kContext);
      youngest->answer->size() > 0 ? finish(*youngest) : finish(*youngest, Failure::kNoRoom, why);
    }
    return false;
  }
  leave_followers(*youngest);
  offer(*youngest, store::Library::Offering::kLast);
  release(*youngest);
  const auto at = std::find_if(running_.begin(), running_.end(), [&](auto& job) { return job.get() == youngest; });
  youngest->outcome.receipt.spans.clear();
  youngest->outcome.receipt.reused_tokens = 0;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.preempted;
  }
  waiting_.push_front(std::move(*at));
  running_.erase(at);
  return true;
}

void Scheduler::step() {
  std::vector<model::Input> inputs;
  std::vector<Job*> jobs;
  std::span<const float> rows;
  const double start = steady_seconds();
  for (;;) {
    plan(&inputs, &jobs);
    if (inputs.empty()) return;
    try {
      rows = engine_.forward().step(inputs);
      break;
    } catch (const Error& e) {
      if (e.code() != Code::kMemory) throw;
      if (!preempt_for(e.what())) return;
    }
  }
  std::size_t tokens = 0;
  for (const model::Input& input : inputs) tokens += input.tokens.size();
  if (tokens > jobs.size()) {  // prompts among them
    const double mean = (steady_seconds() - start) * 1e6 / static_cast<double>(tokens);
    token_microseconds_ = token_microseconds_ > 0 ? 0.8 * token_microseconds_ + 0.2 * mean : mean;
  }
  const auto vocab = static_cast<std::size_t>(card_.vocabulary);
  std::size_t row = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& job = *jobs[i];
    start_followers(job);
    offer_step(job);
    if (inputs[i].logits == 0) continue;
    offer_prompt(job);
    advance(job, rows.subspan(row++ * vocab, vocab));
  }
}

void Scheduler::advance(Job& job, std::span<const float> row) {
  Answer& answer = *job.answer;
  const std::int64_t before = answer.size();
  const bool more = answer.next(row, job.cached());
  if (job.first_token == 0) {
    job.first_token = steady_seconds();
    job.outcome.receipt.prefill_seconds = job.first_token - job.started;
  }
  if (answer.size() > before) {
    job.ids.push_back(answer.token());
    const Piece piece{answer.record(), answer.text()};
    job.listener->pieces({&piece, 1});
  } else if (!answer.text().empty()) {
    const Piece piece{{-1, 0, {}}, answer.text()};
    job.listener->pieces({&piece, 1});
  }
  if (!more) finish(job);
}

void Scheduler::release(Job& job) {
  if (job.sequence) engine_.cache().release(job.sequence);
  job.sequence = nullptr;
  job.leader = nullptr;
  if (job.search) job.search->abandon();  // its thread may outlive the scheduler
  job.search.reset();
}

// Ends a job: with what its answer says, as cancelled when that is not over, or with an error.
void Scheduler::finish(Job& job, Failure failure, std::string error) {
  if (job.over) return;
  job.over = true;
  if (!job.answer->over()) {
    job.answer->stop(Finish::kCancelled);
    if (!job.answer->text().empty()) {
      const Piece piece{{-1, 0, {}}, job.answer->text()};
      job.listener->pieces({&piece, 1});
    }
  }
  leave_followers(job);
  Outcome& out = job.outcome;
  out.failure = failure;
  out.error = std::move(error);
  out.finish = job.answer->finish();
  out.completion_tokens = job.answer->size();
  if (job.first_token > 0) out.decode_seconds = steady_seconds() - job.first_token;
  Receipt& receipt = out.receipt;
  const std::int64_t computed = std::min(job.cached(), job.prompt);
  if (computed > receipt.reused_tokens) receipt.spans.push_back({receipt.reused_tokens, computed, "computed"});
  offer(job, store::Library::Offering::kLast);
  release(job);
  {
    const std::lock_guard lock(mutex_);
    stats_.prompt_tokens += static_cast<std::uint64_t>(computed);
    stats_.reused_tokens += static_cast<std::uint64_t>(receipt.reused_tokens);
    stats_.generated_tokens += static_cast<std::uint64_t>(out.completion_tokens);
    stats_.cancelled += out.finish == Finish::kCancelled && failure == Failure::kNone;
    stats_.failed += failure != Failure::kNone;
  }
  job.listener->done(out);
}

void Scheduler::sweep() {
  const auto over = [](const JobPtr& job) { return job->over; };
  std::erase_if(running_, over);
  std::erase_if(waiting_, over);
}

void Scheduler::publish() {
  const kv::MemoryPlan& plan = engine_.cache().memory();
  const std::lock_guard lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.waiting = static_cast<std::int64_t>(waiting_.size());
  queued_ = static_cast<std::int64_t>(waiting_.size() + inbox_.size());
  stats_.kv_bytes = static_cast<std::uint64_t>(plan.pages - engine_.cache().free_pages()) * plan.chunk_bytes;
  stats_.kv_budget = static_cast<std::uint64_t>(plan.total());
  if (running_.empty() && waiting_.empty() && inbox_.empty()) empty_.notify_all();
}

}  // namespace kvasir::run
