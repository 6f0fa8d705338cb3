// The scheduler's part that has rows computed, of pictures for example: by a thread of their own, beside the steps. A
// prompt goes on up to rows that are not there yet; what runs beside it does not notice.
#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "run/scheduler_job.hpp"

namespace kvasir::run {

bool Scheduler::Job::lacks_rows() const {
  if (!sequence) return false;
  for (const model::RowRun& run : asked.request.runs)
    if (cached() < run.end()) return cached() >= run.begin && !run.block->ready();
  return false;
}

std::int64_t Scheduler::Job::rows_end(std::int64_t end) const {
  for (const model::RowRun& run : asked.request.runs)
    if (cached() < run.end() && run.begin < end && !run.block->ready()) return std::max(run.begin, cached());
  return end;
}

// Asks for the rows that jobs will compute and nobody has computed yet: all of a prompt at once, so that those behind
// others are computed while the prompt is. Jobs whose rows failed end.
void Scheduler::want_rows() {
  for (const auto& job : running_)
    if (!job->over && !job->asked.request.runs.empty()) want_rows(*job);
}

void Scheduler::want_rows(Job& job) {
  const double now = steady_seconds();
  auto& rows = job.rows;
  std::erase_if(rows.wanted, [&](const RowLoader::Block& block) {
    if (!block->ready()) return false;
    rows_.drop(block);
    return true;
  });
  if (rows.since > 0) job.outcome.receipt.rows.wait_seconds += now - rows.since;
  rows.since = 0;
  if (job.waits()) return;  // what it begins with may spare it some
  for (const model::RowRun& run : job.asked.request.runs) {
    if (run.end() <= job.cached() || run.block->ready()) continue;
    if (std::find(rows.wanted.begin(), rows.wanted.end(), run.block) != rows.wanted.end()) continue;
    try {
      rows_.want(run.block);
    } catch (const Error& e) {
      return finish(job, Failure::kRows, e.what());
    }
    rows.wanted.push_back(run.block);
    ++job.outcome.receipt.rows.waited;
  }
  for (const RowLoader::Block& block : rows.wanted)
    if (std::string error = rows_.state(block).error; !error.empty())
      return finish(job, Failure::kRows, "rows of the prompt could not be computed: " + error);
  if (!job.lacks_rows()) return;
  rows.since = now;
  // The first one that is not ready is the one that it waits for, or one that the same work makes.
  const RowLoader::State state = rows_.state(rows.wanted.front());
  if (state.all == 0 || state.done == rows.said) return;
  rows.said = state.done;
  job.listener->rows({.done = state.done,
                      .all = state.all,
                      .waiting = std::ssize(rows.wanted),
                      .total = job.prompt,
                      .cached = job.cached(),
                      .reused = job.outcome.receipt.reused_tokens});
}

void Scheduler::drop_rows(Job& job) {
  for (const RowLoader::Block& block : job.rows.wanted) rows_.drop(block);
  job.rows.wanted.clear();
  if (job.rows.since > 0) job.outcome.receipt.rows.wait_seconds += steady_seconds() - job.rows.since;
  job.rows.since = 0;
}

// While rows are being computed, half of the threads are theirs.
int Scheduler::step_threads() const {
  const int most = engine_.team().most();
  return rows_.busy() ? std::max(1, most - most / 2) : most;
}

void Scheduler::count_rows(Job& job) const {
  RowReceipt& out = job.outcome.receipt.rows;
  for (const model::RowRun& run : job.asked.request.runs) {
    out.count += run.block->count();
    out.reused += std::clamp<std::int64_t>(job.outcome.receipt.reused_tokens - run.begin, 0, run.block->count());
  }
}

}  // namespace kvasir::run
