#include "run/schedule/admission.hpp"

#include <algorithm>
#include <utility>

namespace kvasir::run {
namespace {

// Tokens of every answer that pages are reserved for when a request is admitted. Answers may outgrow it, which
// preempts.
constexpr std::int64_t kReservedAnswer = 256;

}  // namespace

// Pages that a job has or may want soon.
std::int64_t Admission::promised_pages(const Job& job) const {
  const std::int64_t most = job.asked.request.max_tokens;
  const std::int64_t answer = most < 0 ? kReservedAnswer : std::min(kReservedAnswer, most - job.written());
  return cache_.rules().sealed_pages(std::min(job.length() + answer, context_));
}

Job* Admission::admit() {
  if (waiting_.empty() || static_cast<std::int32_t>(running_.size()) >= most_) return nullptr;
  std::int64_t pages = promised_pages(*waiting_.front());
  for (const auto& job : running_) pages += job->over ? 0 : promised_pages(*job);
  if (!running_.empty() && pages > cache_.memory().pages) return nullptr;
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return running_.back().get();
}

std::int64_t Admission::alive() const {
  return std::count_if(running_.begin(), running_.end(), [](const auto& job) { return !job->over; });
}

Job* Admission::youngest() const {
  const auto last = std::find_if(running_.rbegin(), running_.rend(), [](const auto& job) { return !job->over; });
  return last == running_.rend() ? nullptr : last->get();
}

void Admission::requeue(const Job& job) {
  const auto at = std::find_if(running_.begin(), running_.end(), [&](const auto& r) { return r.get() == &job; });
  waiting_.push_front(std::move(*at));
  running_.erase(at);
}

void Admission::sweep() {
  const auto over = [](const auto& job) { return job->over; };
  std::erase_if(running_, over);
  std::erase_if(waiting_, over);
}

}  // namespace kvasir::run
