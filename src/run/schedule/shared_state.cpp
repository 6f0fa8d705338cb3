#include "run/schedule/shared_state.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/error.hpp"

namespace kvasir::run {

RequestId SharedState::put(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  // What is queued and will be admitted at the next step does not wait.
  const std::int64_t free = std::max<std::int64_t>(most_running_ - stats_.running, 0);
  if (draining_ || stop_ || queued_ >= most_waiting_ + free) {
    ++stats_.rejected;
    if (draining_ || stop_) throw Error(Code::kBusy, "is ending, no further requests are taken", "server");
    throw Error(Code::kBusy, "has " + std::to_string(queued_) + " requests, as many as it may hold", "queue");
  }
  ++queued_;
  ++stats_.requests;
  const RequestId id = job->id = next_id_++;
  arrived_.push_back(std::move(job));
  wake_.notify_all();
  return id;
}

void SharedState::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  wake_.notify_all();
}

void SharedState::wake_searched() {
  const std::lock_guard lock(mutex_);
  searched_ = true;
  wake_.notify_all();
}

bool SharedState::drain(double seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto none = [&] { return queued_ == 0 && stats_.running == 0; };  // both as of one moment, see publish()
  return empty_.wait_for(lock, std::chrono::duration<double>(seconds), none);
}

void SharedState::refuse() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void SharedState::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  wake_.notify_all();
}

ServiceStats SharedState::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool SharedState::wait(bool work) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stop_ || !arrived_.empty() || !cancelled_.empty() || searched_ || work; });
  searched_ = false;
  return !stop_;
}

std::pair<Jobs, std::vector<RequestId>> SharedState::take() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(arrived_, {}), std::exchange(cancelled_, {})};
}

bool SharedState::quiet() const {
  const std::lock_guard lock(mutex_);
  return arrived_.empty() && !stop_;
}

void SharedState::publish(std::size_t running, std::size_t waiting, Engine& engine) {
  const kv::MemoryPlan& plan = engine.cache().memory();
  const kv::CacheStats cache = engine.cache().stats();
  const std::lock_guard lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running);
  stats_.waiting = static_cast<std::int64_t>(waiting);
  queued_ = static_cast<std::int64_t>(waiting + arrived_.size());
  stats_.pool = {plan.pages, cache.free_pages, cache.shared_pages};
  stats_.kv_bytes = static_cast<std::uint64_t>(stats_.pool.used()) * plan.chunk_bytes;
  stats_.kv_budget = static_cast<std::uint64_t>(plan.total());
  stats_.streams = engine.model().layers().streams();
  stats_.weights = engine.model().layers().stats();
  stats_.disk = cache.disk;
  stats_.device = cache.device;
  stats_.products = engine.product_stats();
  if (running + waiting + arrived_.size() == 0) empty_.notify_all();
}

void SharedState::count_request(const Outcome& out, std::int64_t computed) {
  const Receipt& receipt = out.receipt;
  const bool whole = out.failure == Failure::kNone;
  const std::lock_guard lock(mutex_);
  stats_.pages += receipt.pages;
  stats_.selection += receipt.selection.total();
  stats_.prompt_tokens += static_cast<std::uint64_t>(computed);
  stats_.reused_tokens += static_cast<std::uint64_t>(receipt.reused_tokens);
  stats_.rows += receipt.rows;
  stats_.relocated_tokens += static_cast<std::uint64_t>(receipt.blend.relocated_tokens);
  stats_.repaired_tokens += static_cast<std::uint64_t>(receipt.blend.repaired_tokens);
  stats_.generated_tokens += static_cast<std::uint64_t>(out.completion_tokens);
  stats_.drafts += out.draft;
  stats_.stopped += whole && (out.finish == Finish::kEnd || out.finish == Finish::kStop);
  stats_.cut += whole && (out.finish == Finish::kLength || out.finish == Finish::kContext);
  stats_.cancelled += whole && out.finish == Finish::kCancelled;
  stats_.failed += !whole;
}

void SharedState::count_step(std::int64_t answers, std::int64_t answer_tokens, std::int64_t prompt_rows,
                             double seconds) {
  const auto grew = static_cast<std::uint64_t>(answers);
  const std::lock_guard lock(mutex_);
  StepStats& work = stats_.work;
  if (answers > 0) {
    ++work.steps;
    work.answers += grew;
    work.most_answers = std::max(work.most_answers, grew);
    work.answer_tokens += static_cast<std::uint64_t>(answer_tokens);
    work.answer_seconds += seconds;
  }
  if (prompt_rows > 0) {
    work.prompt_tokens += static_cast<std::uint64_t>(prompt_rows);
    work.prompt_seconds += seconds;
  }
}

void SharedState::count_preemption() {
  const std::lock_guard lock(mutex_);
  ++stats_.preempted;
}

}  // namespace kvasir::run
