#include "run/schedule/step.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/team.hpp"
#include "run/logprobs.hpp"

namespace kvasir::run {

// Plans and computes the step. False: nothing could be computed.
bool Step::compute() {
  reuse_.begin_searched(admission_.running());
  for (const auto& job : admission_.running())
    if (!job->waits()) sharing_.start_followers(*job);
  for (const auto& job : admission_.running())
    if (!job->over && !job->asked.request.runs.empty())
      if (std::string error = rows_.want(*job); !error.empty())
        lifecycle_.finish(*job, Failure::kRows, std::move(error));
  const Team::Part threads(engine_.team(), rows_.step_threads());
  speculation_.draft(admission_.running());
  for (;;) {
    const StepPlan& plan = planner_.plan(admission_.running());
    if (plan.inputs.empty()) return false;
    start_ = steady_seconds();
    try {
      logits_ = engine_.forward().step(plan.inputs);
      return true;
    } catch (const Error& e) {
      if (e.code() == Code::kMemory && preempt_for(e.what())) continue;
      if (e.code() == Code::kIo)
        lose(e.what());
      else if (e.code() != Code::kMemory)
        throw;
      return false;
    }
  }
}

// Gives back the pages of the youngest job so that the others can go on. False: there is only one.
bool Step::preempt_for(const std::string& why) {
  Job* youngest = admission_.youngest();
  if (admission_.alive() > 1) {
    lifecycle_.preempt(*youngest);
    admission_.requeue(*youngest);
    return true;
  }
  if (!youngest) return false;
  youngest->answer->stop(Finish::kContext);
  youngest->written() > 0 ? lifecycle_.finish(*youngest) : lifecycle_.finish(*youngest, Failure::kNoRoom, why);
  return false;
}

// A disk did not give weights, or pages of the cache: the step was given up, and the sequences in it are empty. The
// next step may succeed.
void Step::lose(const std::string& why) {
  for (Job* job : planner_.last().jobs) {
    reuse_.forget(*job);  // what it offers is ahead of the sequence
    lifecycle_.finish(*job, Failure::kWeights, why);
  }
}

// The step took so long.
void Step::learn(const StepPlan& plan, double seconds) {
  const auto prompts = static_cast<std::int64_t>(plan.jobs.size()) - plan.answers;
  if (plan.tokens() - plan.rows > prompts) reuse_.learn_cost(plan.tokens(), seconds);  // more than a token of some
  planner_.learn(seconds);
  speculation_.stepped(plan, seconds);
}

void Step::run() {
  if (!compute()) return;
  const StepPlan& plan = planner_.last();
  const double now = steady_seconds();
  learn(plan, now - start_);
  const std::int64_t before = plan.written();
  const auto vocab = static_cast<std::size_t>(engine_.model().spec().vocab);
  std::span<const float> logits = logits_;
  int computed = 0;  // rows of the step
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    Job& job = *plan.jobs[i];
    const model::Input& input = plan.inputs[i];
    const auto fed = static_cast<std::int64_t>(input.tokens.size());
    const int row = std::exchange(computed, computed + static_cast<int>(fed));
    const std::span<const float> own = logits.first(static_cast<std::size_t>(input.logits) * vocab);
    logits = logits.subspan(own.size());
    const bool relocated = job.blended.pending(), verifies = input.decode && input.logits > 1;
    account(job, input, now);
    bool more = true;
    if (verifies) {
      job.draft->stats.verify_seconds += now - start_;
      more = speculation_.verify(job, own, row);
    } else if (!relocated) {
      speculation_.show(job, row, job.cached() - fed, fed);
    }
    sharing_.start_followers(job);
    reuse_.offer_step(job);
    if (verifies) {
      go_on(job, more);
    } else if (!own.empty()) {
      reuse_.offer_prompt(job);
      advance(job, own);
    }
  }
  shared_.count_step(plan.answers, plan.written() - before, plan.tokens() - plan.rows, steady_seconds() - start_);
  if (plan.reads_rows) read_rows(plan);
}

// What the step that ended at `now` did for a job.
void Step::account(Job& job, const model::Input& input, double now) {
  Outcome& out = job.outcome;
  job.blended.computed(input.tokens.size());
  if (input.decode) {
    ++out.decode_steps;
    out.decode_bytes +=
        static_cast<double>(engine_.forward().weight_bytes()) / static_cast<double>(planner_.last().answers) +
        static_cast<double>(engine_.cache().stats(*job.sequence).kv_bytes_read);
  } else if (job.at.first_token == 0) {
    job.listener->prefill(job.cached(), job.prompt, job.outcome.receipt.reused_tokens);
    out.prompt_seconds = now - job.at.started;
  }
}

void Step::advance(Job& job, std::span<const float> row) {
  const std::int64_t before = job.length();
  const bool more = job.draw(row, job.cached());
  speculation_.drawn(job, before, more);
  go_on(job, more);
}

void Step::go_on(Job& job, bool more) {
  if (!more) return lifecycle_.finish(job);
  if (job.cached() + 1 >= engine_.context()) lifecycle_.shift(job);
}

// Vectors and log-probabilities of prompts.
void Step::read_rows(const StepPlan& plan) {
  int first = 0;  // of the input's rows
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    const auto count = static_cast<std::int64_t>(plan.inputs[i].tokens.size());
    Job& job = *plan.jobs[i];
    if (!job.over && job.pools()) pool(job, first, count);
    if (!job.over && job.scores_prompt()) score(job, first, job.cached() - count, count);
    first += static_cast<int>(count);
  }
}

// The step's `count` rows from `row` on are the next ones of a text whose vector is wanted.
void Step::pool(Job& job, int row, std::int64_t count) {
  const model::ModelSpec& spec = engine_.model().spec();
  if (job.cached() == count) job.vector = std::make_unique<Pooled>(engine_.forward(), job.asked.request.pooling, spec);
  job.vector->add(row, count);
  if (job.cached() < job.prompt) return;
  job.note_first_token();
  job.listener->pooled(job.vector->take());
  job.answer->stop(Finish::kEnd);
  lifecycle_.finish(job);
}

// Says the log-probabilities of the tokens behind the step's `count` rows from `row` on, those of the job's tokens from
// `first` on. The row behind the whole prompt gives the answer's first token.
void Step::score(Job& job, int row, std::int64_t first, std::int64_t count) {
  const auto vocab = static_cast<std::size_t>(engine_.model().spec().vocab);
  const auto best = static_cast<std::size_t>(job.asked.request.top_logprobs);
  job.scores.clear();
  if (job.scored == 0) job.scores.push_back({job.ids[0], std::numeric_limits<float>::quiet_NaN(), {}});
  std::span<const float> last;
  for (std::int64_t done = 0; done < count;) {
    const int n = static_cast<int>(std::min<std::int64_t>(engine_.forward().max_logits(), count - done));
    const std::span<const float> rows = engine_.forward().logits_of(row + static_cast<int>(done), n);
    for (int r = 0; r < n; ++r) {
      const std::int64_t token = first + done + r + 1;
      last = rows.subspan(static_cast<std::size_t>(r) * vocab, vocab);
      if (token < job.scored || token >= job.prompt) continue;  // a preempted job has said it; or none follows
      const double partition = log_partition(last);
      const std::int32_t id = job.ids[static_cast<std::size_t>(token)];
      TokenRecord& record = job.scores.emplace_back(TokenRecord{id, logprob_of(last, id, partition), {}});
      record.best.resize(best);
      record.best.resize(top_logprobs(last, partition, record.best));
    }
    done += n;
  }
  job.scored = std::max(job.scored, std::min(job.prompt, first + count + 1));
  job.listener->scored(job.scores);
  if (first + count < job.prompt) return;
  reuse_.offer_prompt(job);
  advance(job, last);
}

}  // namespace kvasir::run
