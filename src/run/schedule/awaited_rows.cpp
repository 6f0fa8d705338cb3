#include "run/schedule/awaited_rows.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace kvasir::run {

bool Job::lacks_rows() const {
  if (!sequence) return false;
  const auto [ahead, passed] = way();
  for (const model::RowRun& run : ahead)
    if (passed < run.end()) return passed >= run.begin && !run.block->ready();
  return false;
}

std::int64_t Job::rows_end(std::int64_t end) const {
  const auto [ahead, passed] = way();
  for (const model::RowRun& run : ahead)
    if (passed < run.end() && run.begin < end && !run.block->ready()) return std::max(run.begin, passed);
  return end;
}

std::string AwaitedRows::want(Job& job) {
  const double now = steady_seconds();
  auto& rows = job.rows;
  std::erase_if(rows.wanted, [&](const RowLoader::Block& block) {
    if (!block->ready()) return false;
    loader_.drop(block);
    return true;
  });
  if (rows.since > 0) job.outcome.receipt.rows.wait_seconds += now - rows.since;
  rows.since = 0;
  if (job.waits()) return {};  // what it begins with may spare it some
  const auto [ahead, passed] = job.way();
  for (const model::RowRun& run : ahead) {
    if (run.end() <= passed || run.block->ready()) continue;
    if (std::find(rows.wanted.begin(), rows.wanted.end(), run.block) != rows.wanted.end()) continue;
    try {
      loader_.want(run.block);
    } catch (const Error& e) {
      return e.what();
    }
    rows.wanted.push_back(run.block);
    ++job.outcome.receipt.rows.waited;
  }
  for (const RowLoader::Block& block : rows.wanted)
    if (std::string error = loader_.state(block).error; !error.empty())
      return "rows of the prompt could not be computed: " + error;
  if (!job.lacks_rows()) return {};
  rows.since = now;
  // The first one that is not ready is the one that it waits for, or one that the same work makes.
  const RowLoader::State state = loader_.state(rows.wanted.front());
  if (state.all == 0 || state.done == rows.said) return {};
  rows.said = state.done;
  job.listener->rows({.done = state.done,
                      .all = state.all,
                      .waiting = std::ssize(rows.wanted),
                      .total = job.prompt,
                      .cached = job.cached(),
                      .reused = job.outcome.receipt.reused_tokens});
  return {};
}

void AwaitedRows::drop(Job& job) {
  for (const RowLoader::Block& block : job.rows.wanted) loader_.drop(block);
  job.rows.wanted.clear();
  if (job.rows.since > 0) job.outcome.receipt.rows.wait_seconds += steady_seconds() - job.rows.since;
  job.rows.since = 0;
}

int AwaitedRows::step_threads() const {
  const int most = team_.most();
  return loader_.busy() ? std::max(1, most - most / 2) : most;
}

void AwaitedRows::count(Job& job) {
  RowReceipt& out = job.outcome.receipt.rows;
  for (const model::RowRun& run : job.asked.request.runs) {
    out.count += run.block->count();
    out.reused += std::clamp<std::int64_t>(job.outcome.receipt.reused_tokens - run.begin, 0, run.block->count());
  }
  out.reused += job.blended.known_rows;
}

}  // namespace kvasir::run
