#include "run/schedule/speculation.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "run/verify.hpp"

namespace kvasir::run {

Speculation::Speculation(Engine& engine, Drafting* drafting, std::int32_t running)
    : engine_(engine), drafting_(drafting) {
  drafted_.reserve(static_cast<std::size_t>(running));
}

void Speculation::check(ServiceRequest& asked) const {
  if (!asked.drafters) return;
  if (!drafting_ && !asked.drafters->empty())
    throw Error(Code::kBadInput, "names drafters, but there are none (see --draft)", "draft");
  if (drafting_) drafting_->check_names(*asked.drafters);
}

void Speculation::begin(Job& job) {
  job.draft = drafting_->begin(job.asked.tenant, job.asked.reuse, names_of(job), *job.answer, job.ids.capacity());
}

void Speculation::draft(const Jobs& running) {
  if (!drafting_) return;
  drafted_.clear();
  std::int64_t answers = 0;
  for (const auto& job : running) {
    if (!job->runs() || !job->decodes()) continue;
    ++answers;
    if (!job->draft) continue;
    const std::int64_t cached = job->cached(), most = job->asked.request.max_tokens;
    std::int64_t room = std::min(engine_.cache().rules().draft_room(*job->sequence), engine_.context() - cached - 2);
    if (most >= 0) room = std::min(room, most - job->written() - 1);
    job->draft->ids = job->ids;
    job->draft->sequence = job->sequence;
    job->draft->most = static_cast<int>(std::clamp<std::int64_t>(room, 0, kMostDraft));
    drafted_.push_back(job->draft.get());
  }
  if (!drafted_.empty()) drafting_->draft(drafted_, answers);
}

void Speculation::show(Job& job, int row, std::int64_t first, std::int64_t count) {
  if (!job.asked.request.runs.empty()) {  // what stands in front of rows, and rows, drafters do not see
    const std::int64_t skip = std::clamp<std::int64_t>(job.asked.request.runs.back().end() - first, 0, count);
    row += static_cast<int>(skip), first += skip, count -= skip;
  }
  if (!drafting_ || job.pools() || count < 1 || !drafting_->reads_states(names_of(job))) return;
  if (!job.draft) begin(job);
  if (job.draft) drafting_->computed(*job.draft, {job.ids, first, count, row, &engine_.forward()});
}

void Speculation::drawn(Job& job, std::int64_t before, bool more) {
  if (job.draft && before > job.prompt)
    drafting_->verified(*job.draft, std::span(job.ids).subspan(static_cast<std::size_t>(before)));
  if (drafting_ && more && !job.draft) begin(job);
}

bool Speculation::verify(Job& job, std::span<const float> logits, int row) {
  const std::span<const std::int32_t> draft_tokens = std::span(job.draft->fed).subspan(1);
  const std::size_t vocab = logits.size() / job.draft->fed.size();
  const auto drafted = static_cast<std::int64_t>(draft_tokens.size());
  const auto before = static_cast<std::size_t>(job.length());
  const std::int64_t first = job.cached() - drafted;  // tokens up to the answer's last one
  bool more = true;
  const auto right = static_cast<std::int64_t>(verify_drafts(draft_tokens, [&](std::size_t i) {
    more = job.draw(logits.subspan(i * vocab, vocab), first + static_cast<std::int64_t>(i));
    return more ? job.ids.back() : -1;
  }));
  const double start = steady_seconds();
  if (right < drafted) engine_.cache().truncate(job.sequence, first + right);
  job.draft->stats.rollback_seconds += steady_seconds() - start;
  job.outcome.decode_steps += right;
  drafting_->verified(*job.draft, std::span(job.ids).subspan(before));
  show(job, row, first - 1, std::min(right + 1, job.length() - first + 1));
  return more;
}

void Speculation::stepped(const StepPlan& plan, double seconds) {
  if (drafting_ && plan.answers > 0 && plan.tokens() == plan.rows) drafting_->stepped(plan.rows, seconds);
}

void Speculation::end(Job& job) {
  if (!job.draft) return;
  job.outcome.draft = job.draft->stats;
  drafting_->end(std::move(job.draft), job.ids);
}

}  // namespace kvasir::run
