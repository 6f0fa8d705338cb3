#include "run/schedule/step_plan.hpp"

#include <algorithm>

#include "kv/page.hpp"

namespace kvasir::run {
namespace {

// As many of a job's next `count` elements, or more, that no run is cut whose rows see each other; 0: there is no room.
std::int64_t whole_runs(const Job& job, std::int64_t count, std::int64_t room) {
  const auto [runs, begin] = job.way();
  for (const model::RowRun& run : runs) {
    if (!run.block->both_ways() || run.begin >= begin + count || run.end() <= begin + count) continue;
    if (run.begin > begin) return run.begin - begin;
    return run.block->count() <= room ? run.block->count() : 0;
  }
  return count;
}

}  // namespace

void StepPlan::add(Job& job, std::int64_t count) {
  model::Input input{.sequence = job.sequence,
                     .tokens = job.next(),
                     .decode = job.decodes(),
                     .runs = job.asked.request.runs,
                     .at = kv::Cache::position(*job.sequence, 0),
                     .adapters = job.adapters};
  if (const int drafted = job.drafted(); drafted > 0) {
    input.tokens = job.draft->fed;
    input.logits = drafted + 1;
  } else {
    const bool reads = job.scores_prompt() || job.pools();
    const bool last = count == static_cast<std::int64_t>(input.tokens.size());
    input.tokens = input.tokens.first(static_cast<std::size_t>(count));
    input.logits = last && !reads ? 1 : 0;
    reads_rows = reads_rows || reads;
  }
  inputs.push_back(input);
  jobs.push_back(&job);
}

void StepPlan::clear() {
  inputs.clear();
  jobs.clear();
  answers = rows = 0;
  bounded = reads_rows = false;
}

std::int64_t StepPlan::tokens() const {
  std::size_t n = 0;
  for (const model::Input& input : inputs) n += input.tokens.size();
  return static_cast<std::int64_t>(n);
}

std::int64_t StepPlan::written() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(answers); ++i) n += jobs[i]->written();
  return n;
}

StepPlanner::StepPlanner(const kv::Cache& cache, const Sharing& sharing, const Limits& limits)
    : cache_(cache), sharing_(sharing), limits_(limits) {
  const auto most = static_cast<std::size_t>(limits.running);
  plan_.inputs.reserve(most);
  plan_.jobs.reserve(most);
  prompts_.reserve(most);
  slices_.reserve(most);
}

// The next token of every answer, then of every prompt its part of what is left of the step.
const StepPlan& StepPlanner::plan(const Jobs& running) {
  plan_.clear();
  prompts_.clear();
  for (const auto& job : running) {
    if (!job->runs()) continue;
    if (!job->decodes()) {
      prompts_.push_back(job.get());
      continue;
    }
    plan_.add(*job, 1);
    plan_.rows += 1 + job->drafted();
  }
  plan_.answers = static_cast<std::int64_t>(plan_.jobs.size());
  if (!prompts_.empty()) plan_prompts();
  return plan_;
}

double StepPlanner::answer_seconds() const {
  return plan_.answers > 0 ? answer_pace_.seconds(static_cast<double>(plan_.rows)) : 0;
}

// Beside answers prompts get as many rows as take what the answers leave of the step's time, or half as long as the
// answers take: so these keep two thirds of their pace where that is slow. The prompts with the fewest tokens left come
// first, and what they do not need is the others'. Those that end in a step without answers wait for no more of the
// others than an answer would.
void StepPlanner::plan_prompts() {
  std::sort(prompts_.begin(), prompts_.end(), [](const Job* a, const Job* b) {
    const std::size_t left = a->next().size(), other = b->next().size();
    return left != other ? left < other : a->id < b->id;
  });
  auto others = static_cast<std::int64_t>(prompts_.size());
  const std::int64_t fewest = std::max<std::int64_t>(1, PromptPace::kFewest / others);
  const std::int64_t wanted = plan_.answers > 0 ? limits_.step_tokens : limits_.chunk;
  // However many answers grow, a quarter of the step is for prompts: with less they would come in token by token.
  const std::int64_t share = std::max({others, wanted - plan_.rows, wanted / 4});
  std::int64_t room = limits_.rows - plan_.rows;
  std::int64_t budget = std::min(share, room), rows = plan_.rows;
  const double alone = answer_seconds();
  double seconds = std::max(limits_.seconds - alone, 0.5 * alone);
  plan_.bounded = plan_.answers > 0 && limits_.seconds > 0;
  bool ends = false;  // one of those so far
  for (Job* job : prompts_) {
    const auto left = static_cast<std::int64_t>(job->next().size());
    std::int64_t part = budget / others;
    if (ends && left > part && limits_.seconds > 0) plan_.bounded = true;
    if (plan_.bounded) {
      const double mine = seconds / static_cast<double>(others);
      part = std::min(part, std::max(fewest, prompt_pace_.rows(job->cached(), mine)));
      // Kernels take rows by kFewest.
      const std::int64_t cut = (rows + part) % PromptPace::kFewest;
      if (part > PromptPace::kFewest && 4 * cut <= part) part -= cut;
    }
    const std::int64_t count = whole_runs(*job, stop_of(*job, part) - job->way().done, room);
    --others;
    if (count < 1) continue;  // a picture for which there is no room beside the others
    plan_.add(*job, count);
    room -= count;
    budget -= count;
    rows += count;
    seconds -= static_cast<double>(count) * prompt_pace_.row_seconds(job->cached());
    ends = ends || count == left;
  }
}

// How far a job's prompt may be computed in one go of at most `most` tokens: to its end, or to where a follower parts.
// Checkpoints are passed as long as their tails can be made afterwards: a step of a few tokens reads all weights, too.
std::int64_t StepPlanner::stop_of(const Job& job, std::int64_t most) const {
  if (job.blended.pending()) return job.rows_end(std::min(std::ssize(job.blended.ids), job.way().done + most));
  const std::int64_t stop = sharing_.stop_of(job, job.rows_end(std::min(job.length(), job.cached() + most)));
  const auto& points = job.kept.checkpoints;
  if (points.empty() || points.back() >= stop || cache_.rules().keeps_tail(stop, points.back())) return stop;
  return std::min(stop, cache_.rules().tail_kept_to(points.back()));
}

void StepPlanner::learn(double seconds) {
  const auto answers = static_cast<std::size_t>(plan_.answers);
  if (plan_.jobs.size() == answers) return answer_pace_.learn(static_cast<double>(plan_.rows), seconds);
  if (!plan_.bounded) return;  // where many rows are computed together, each costs less
  slices_.clear();
  for (const model::Input& input : std::span(plan_.inputs).subspan(answers))
    slices_.push_back({static_cast<std::int64_t>(input.tokens.size()), input.at});
  prompt_pace_.learn(slices_, seconds - answer_seconds());
}

}  // namespace kvasir::run
