#include "run/schedule/sharing.hpp"

#include <algorithm>

#include "run/schedule/checkpoints.hpp"

namespace kvasir::run {
namespace {

// The first `tokens` of its prompt are pages of another request that runs.
void took_live(Job& job, std::int64_t tokens) {
  job.outcome.receipt.spans.push_back({0, tokens, "live"});
  job.outcome.receipt.reused_tokens = tokens;
}

}  // namespace

Job::Lead Sharing::find_leader(const Job& job) const {
  Job::Lead best;
  if (!job.reuses()) return best;
  for (const auto& r : running_) {
    if (r.get() == &job || r->over || r->kept.search || r->blended.on() || !r->asked.reuse || r->space != job.space)
      continue;
    const std::int64_t most =
        std::min({r->prompt, job.length() - 1, r->exact_prompt(cache_), job.exact_prompt(cache_)});
    const auto differ = std::mismatch(job.ids.begin(), job.ids.begin() + most, r->ids.begin());
    const std::int64_t common = model::common_end(job.asked.request.runs, differ.first - job.ids.begin());
    if (common < std::max(kLeastShare, best.share + 1)) continue;
    if (r->leader.job && r->leader.share >= common) continue;  // its leader is asked too
    if (r->cached() > common && !cache_.rules().can_truncate(*r->sequence, common)) continue;
    best = {r.get(), common};
  }
  return best;
}

std::int64_t Sharing::stop_of(const Job& leader, std::int64_t stop) const {
  for (const auto& follower : running_)
    if (follower->leader.job == &leader && follower->leader.share > leader.cached())
      stop = std::min(stop, follower->leader.share);
  return stop;
}

void Sharing::start_followers(Job& leader) {
  for (const auto& job : running_) {
    if (job->leader.job != &leader || leader.cached() < job->leader.share) continue;
    const std::int64_t share = job->leader.share;
    job->sequence = cache_.fork(*leader.sequence);
    cache_.truncate(job->sequence, share);
    cache_.set_selection(job->sequence, job->selector());
    job->kept.share(leader.kept, share);
    job->leader = {};
    took_live(*job, share);
  }
}

void Sharing::leave_followers(Job& leader) {
  for (const auto& job : running_) {
    if (job->leader.job != &leader) continue;
    const std::int64_t share = job->leader.share;
    job->leader = {};
    if (leader.sequence && leader.cached() >= kLeastShare && leader.cached() <= share) {
      job->sequence = cache_.fork(*leader.sequence);
      took_live(*job, leader.cached());
    } else {
      job->sequence = cache_.create();
    }
    cache_.set_selection(job->sequence, job->selector());
  }
}

}  // namespace kvasir::run
