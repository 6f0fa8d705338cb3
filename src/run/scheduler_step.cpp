// The scheduler's half that computes: which tokens a step takes, what comes of it, and how a job ends.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kv/page.hpp"
#include "run/scheduler_job.hpp"
#include "run/verify.hpp"

namespace kvasir::run {

// How far a job's prompt may be computed in one go of at most `most` tokens: to its end, or to where a follower parts.
// Checkpoints are passed as long as their tails can be made afterwards: a step of a few tokens reads all weights, too.
std::int64_t Scheduler::stop_of(const Job& job, std::int64_t most) const {
  std::int64_t stop = std::min(job.length(), job.cached() + most);
  for (const auto& follower : running_)
    if (follower->leader.job == &job && follower->leader.share > job.cached())
      stop = std::min(stop, follower->leader.share);
  const kv::Cache& cache = engine_.cache();
  const auto& points = job.kept.checkpoints;
  if (!points.empty() && points.back() < stop && !cache.rules().keeps_tail(stop, points.back()))
    stop = std::min(stop, (points.back() - 1) / kv::kPageTokens * kv::kPageTokens + kv::kPageTokens);
  return stop;
}

// As many of a job's next `count` elements, or more, that no run is cut whose rows see each other; 0: there is no room.
std::int64_t Scheduler::whole_runs(const Job& job, std::int64_t count, std::int64_t room) {
  const std::int64_t begin = job.cached();
  for (const model::RowRun& run : job.asked.request.runs) {
    if (!run.block->both_ways() || run.begin >= begin + count || run.end() <= begin + count) continue;
    if (run.begin > begin) return run.begin - begin;
    return run.block->count() <= room ? run.block->count() : 0;
  }
  return count;
}

void Scheduler::Plan::add(Job& job, std::int64_t count) {
  if (const int drafted = job.drafted(); drafted > 0) {
    inputs.push_back({.sequence = job.sequence,
                      .tokens = job.draft->fed,
                      .logits = drafted + 1,
                      .decode = true,
                      .runs = job.asked.request.runs,
                      .at = job.cached()});
    jobs.push_back(&job);
    return;
  }
  const std::span<const std::int32_t> ids = job.next();
  const bool reads = job.scores_prompt() || job.pools();
  const bool last = count == static_cast<std::int64_t>(ids.size()) && !reads;
  inputs.push_back({.sequence = job.sequence,
                    .tokens = ids.first(static_cast<std::size_t>(count)),
                    .logits = last ? 1 : 0,
                    .decode = job.decodes(),
                    .runs = job.asked.request.runs,
                    .at = job.cached()});
  jobs.push_back(&job);
  reads_rows = reads_rows || reads;
}

void Scheduler::Plan::clear() {
  inputs.clear();
  jobs.clear();
  answers = rows = 0;
  bounded = reads_rows = false;
}

// The next token of every answer, then of every prompt its part of what is left of the step. How a prompt is cut
// changes no bit of it (law 1).
void Scheduler::plan() {
  plan_.clear();
  prompts_.clear();
  for (const auto& job : running_) {
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
}

// Beside answers prompts get as many rows as take what the answers leave of step_ms, or half as long as the answers
// take: so these keep two thirds of their pace where that is slow. The prompts with the fewest tokens left come first,
// and what they do not need is the others'. Those that end in a step without answers wait for no more of the others
// than an answer would.
void Scheduler::plan_prompts() {
  std::sort(prompts_.begin(), prompts_.end(), [](const Job* a, const Job* b) {
    const std::size_t left = a->next().size(), other = b->next().size();
    return left != other ? left < other : a->id < b->id;
  });
  auto others = static_cast<std::int64_t>(prompts_.size());
  const std::int64_t fewest = std::max<std::int64_t>(1, PromptPace::kFewest / others);
  const std::int64_t wanted = plan_.answers > 0 ? options_.step_tokens : engine_.options().chunk;
  // However many answers grow, a quarter of the step is for prompts: with less they would come in token by token.
  const std::int64_t share = std::max({others, wanted - plan_.rows, wanted / 4});
  std::int64_t room = engine_.forward().max_tokens() - plan_.rows;
  std::int64_t budget = std::min(share, room), rows = plan_.rows;
  const double alone = plan_.answers > 0 ? answer_pace_.seconds(static_cast<double>(plan_.rows)) : 0;
  double seconds = std::max(1e-3 * options_.step_ms - alone, 0.5 * alone);
  plan_.bounded = plan_.answers > 0 && options_.step_ms > 0;
  bool ends = false;  // one of those so far
  for (Job* job : prompts_) {
    const auto left = static_cast<std::int64_t>(job->next().size());
    std::int64_t part = budget / others;
    if (ends && left > part && options_.step_ms > 0) plan_.bounded = true;
    if (plan_.bounded) {
      const double mine = seconds / static_cast<double>(others);
      part = std::min(part, std::max(fewest, prompt_pace_.rows(job->cached(), mine)));
      // Kernels take rows by kFewest.
      const std::int64_t cut = (rows + part) % PromptPace::kFewest;
      if (part > PromptPace::kFewest && 4 * cut <= part) part -= cut;
    }
    const std::int64_t count =
        job->blended.pending() ? std::min(part, left) : whole_runs(*job, stop_of(*job, part) - job->cached(), room);
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
  if (youngest->outcome.shifts == 0) {  // else the receipt is about a prompt that was computed long ago
    youngest->outcome.receipt.spans.clear();
    youngest->outcome.receipt.reused_tokens = 0;
    youngest->outcome.receipt.blend = {};
  }
  {
    const std::lock_guard lock(mutex_);
    ++stats_.preempted;
  }
  waiting_.push_front(std::move(*at));
  running_.erase(at);
  return true;
}

// Draft tokens what follows the answers that go on, as far as every draft token may be cut off again: within the page
// of the answer's token, the context and the answer's length.
void Scheduler::draft() {
  if (!drafting_) return;
  drafted_.clear();
  std::int64_t answers = 0;
  for (const auto& job : running_) {
    if (!job->runs() || !job->decodes()) continue;
    ++answers;
    if (!job->draft) continue;
    const std::int64_t cached = job->cached(), most = job->asked.request.max_tokens;
    std::int64_t room = std::min(kv::Cache::draft_room(*job->sequence), engine_.context() - cached - 2);
    if (most >= 0) room = std::min(room, most - job->answer->size() - 1);
    job->draft->ids = job->ids;
    job->draft->most = static_cast<int>(std::clamp<std::int64_t>(room, 0, kMostDraft));
    drafted_.push_back(job->draft.get());
  }
  if (!drafted_.empty()) drafting_->draft(drafted_, answers);
}

// Plans and runs one step: its logits. No inputs are left when nothing could be computed. start: of the model's part.
std::span<const float> Scheduler::compute(double& start) {
  begin_searched();
  for (auto& job : running_)
    if (!job->waits()) start_followers(*job);
  draft();
  for (;;) {
    plan();
    if (plan_.inputs.empty()) return {};
    start = steady_seconds();
    try {
      return engine_.forward().step(plan_.inputs);
    } catch (const Error& e) {
      if (e.code() == Code::kIo) {
        lose_step(e.what());
        return {};
      }
      if (e.code() != Code::kMemory) throw;
      if (preempt_for(e.what())) continue;
      plan_.inputs.clear();
      return {};
    }
  }
}

// A disk did not give weights, or pages of the cache: the step was given up, and the sequences in it are empty. The
// next step may succeed.
void Scheduler::lose_step(const std::string& why) {
  for (Job* job : plan_.jobs) {
    job->kept.chain.reset();  // it is ahead of the sequence
    finish(*job, Failure::kWeights, why);
  }
  plan_.clear();
}

// The step took so long.
void Scheduler::learn_pace(double seconds) {
  const auto answers = static_cast<std::size_t>(plan_.answers);
  if (plan_.jobs.size() == answers) return answer_pace_.learn(static_cast<double>(plan_.rows), seconds);
  if (!plan_.bounded) return;  // where many rows are computed together, each costs less
  slices_.clear();
  for (const model::Input& input : std::span(plan_.inputs).subspan(answers))
    slices_.push_back({static_cast<std::int64_t>(input.tokens.size()), input.at});
  const double alone = answers > 0 ? answer_pace_.seconds(static_cast<double>(plan_.rows)) : 0;
  prompt_pace_.learn(slices_, seconds - alone);
}

// Tokens of the answers that grow in this step.
std::int64_t Scheduler::written() const {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(plan_.answers); ++i) tokens += plan_.jobs[i]->answer->size();
  return tokens;
}

void Scheduler::count_step(std::int64_t prompt_rows, std::int64_t answer_tokens, double seconds) {
  const auto answers = static_cast<std::uint64_t>(plan_.answers);
  const std::lock_guard lock(mutex_);
  StepStats& work = stats_.work;
  if (answers > 0) {
    ++work.steps;
    work.answers += answers;
    work.most_answers = std::max(work.most_answers, answers);
    work.answer_tokens += static_cast<std::uint64_t>(answer_tokens);
    work.answer_seconds += seconds;
  }
  if (prompt_rows > 0) {
    work.prompt_tokens += static_cast<std::uint64_t>(prompt_rows);
    work.prompt_seconds += seconds;
  }
}

void Scheduler::step() {
  double start = 0;
  const std::span<const float> rows = compute(start);
  if (plan_.inputs.empty()) return;
  std::size_t tokens = 0;
  for (const model::Input& input : plan_.inputs) tokens += input.tokens.size();
  const double now = steady_seconds();
  const auto prompts = static_cast<std::int64_t>(plan_.jobs.size()) - plan_.answers;
  if (static_cast<std::int64_t>(tokens) - plan_.rows > prompts) {  // more than a token of some
    const double mean = (now - start) * 1e6 / static_cast<double>(tokens);
    token_microseconds_ = token_microseconds_ > 0 ? 0.8 * token_microseconds_ + 0.2 * mean : mean;
  }
  learn_pace(now - start);
  if (drafting_ && plan_.answers > 0 && static_cast<std::int64_t>(tokens) == plan_.rows)
    drafting_->stepped(plan_.rows, now - start);
  const std::int64_t before = written();
  const auto vocab = static_cast<std::size_t>(card_.vocabulary);
  std::size_t row = 0;  // of logits
  int computed = 0;     // rows of the step
  for (std::size_t i = 0; i < plan_.jobs.size(); ++i) {
    Job& job = *plan_.jobs[i];
    const auto fed = static_cast<std::int64_t>(plan_.inputs[i].tokens.size());
    const int at = std::exchange(computed, computed + static_cast<int>(fed));
    const bool relocated = job.blended.pending();
    account(job, plan_.inputs[i], now);
    if (const int drafted = job.draft && plan_.inputs[i].decode ? job.draft->drafted() : 0; drafted > 0) {
      job.draft->stats.verify_seconds += now - start;
      const auto count = static_cast<std::size_t>(drafted) + 1;
      verify(job, rows.subspan(row * vocab, count * vocab), static_cast<std::size_t>(drafted), at);
      row += count;
      continue;
    }
    if (!relocated) show(job, at, job.cached() - fed, fed);
    start_followers(job);
    offer_step(job);
    if (plan_.inputs[i].logits == 0) continue;
    offer_prompt(job);
    advance(job, rows.subspan(row++ * vocab, vocab));
  }
  count_step(static_cast<std::int64_t>(tokens) - plan_.rows, written() - before, steady_seconds() - start);
  if (!plan_.reads_rows) return;
  int first = 0;  // of the input's rows
  for (std::size_t i = 0; i < plan_.jobs.size(); ++i) {
    const auto count = static_cast<std::int64_t>(plan_.inputs[i].tokens.size());
    Job& job = *plan_.jobs[i];
    if (!job.over && job.pools()) pool(job, first, count);
    if (!job.over && job.scores_prompt()) score(job, first, job.cached() - count, count);
    first += static_cast<int>(count);
  }
}

// The step's `count` rows from `row` on are the next ones of a text whose vector is wanted.
void Scheduler::pool(Job& job, int row, std::int64_t count) {
  const model::ModelSpec& spec = engine_.model().spec();
  if (job.cached() == count) job.vector = std::make_unique<Pooled>(engine_.forward(), job.asked.request.pooling, spec);
  job.vector->add(row, count);
  if (job.cached() < job.prompt) return;
  job.at.first_token = steady_seconds();
  job.outcome.receipt.prefill_seconds = job.at.first_token - job.at.started;
  job.listener->pooled(job.vector->take());
  job.answer->stop(Finish::kEnd);
  finish(job);
}

// Says the log-probabilities of the tokens behind the step's `count` rows from `row` on, those of the job's tokens from
// `first` on. The row behind the whole prompt gives the answer's first token.
void Scheduler::score(Job& job, int row, std::int64_t first, std::int64_t count) {
  const auto vocab = static_cast<std::size_t>(card_.vocabulary);
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
  offer_prompt(job);
  advance(job, last);
}

// The context is full: the older half of what stands behind the tokens to keep goes, and the rest is a prompt that is
// computed from its beginning. So what follows is what a request with these tokens would get. Nothing of it is kept:
// nobody asks for such a text.
void Scheduler::shift(Job& job) {
  Outcome& out = job.outcome;
  Receipt& receipt = out.receipt;
  if (out.shifts == 0 && !job.blended.on() && job.prompt > receipt.reused_tokens)
    receipt.spans.push_back({receipt.reused_tokens, job.prompt, "computed"});
  const std::int64_t keep = std::min(job.asked.request.keep, job.length() / 2);
  const std::int64_t dropped = (job.length() - keep) / 2;
  offer(job, store::Library::Offering::kLast);
  leave_followers(job);
  job.kept.chain.reset();
  job.kept.checkpoints.clear();
  job.blended = {};
  engine_.cache().release(job.sequence);
  job.sequence = engine_.cache().create();
  engine_.cache().set_selection(job.sequence, job.asked.request.select);
  job.ids.erase(job.ids.begin() + keep, job.ids.begin() + keep + dropped);
  job.prompt = job.length();
  job.answer->make_room();
  ++out.shifts;
  out.shifted_tokens += dropped;
}

// What the step that ended at `now` did for a job.
void Scheduler::account(Job& job, const model::Input& input, double now) {
  Outcome& out = job.outcome;
  if (job.blended.pending()) job.blended.done += input.tokens.size();
  if (input.decode) {
    ++out.decode_steps;
    out.decode_bytes += static_cast<double>(engine_.forward().weight_bytes()) / static_cast<double>(plan_.answers) +
                        static_cast<double>(engine_.cache().stats(*job.sequence).kv_bytes_read);
  } else if (job.at.first_token == 0) {
    job.listener->prefill(job.cached(), job.prompt, job.outcome.receipt.reused_tokens);
    out.prompt_seconds = now - job.at.started;
  }
}

// The answer's next token, by its row of logits and so many tokens in the cache. False: the answer is over.
bool Scheduler::choose(Job& job, std::span<const float> row, std::int64_t cached) {
  Answer& answer = *job.answer;
  const std::int64_t before = answer.size();
  const bool more = answer.next(row, cached);
  if (job.at.first_token == 0) {
    job.at.first_token = steady_seconds();
    job.outcome.receipt.prefill_seconds = job.at.first_token - job.at.started;
  }
  if (answer.size() > before) {
    job.ids.push_back(answer.token());
    const Piece piece{answer.record(), answer.text()};
    job.listener->pieces({&piece, 1});
  } else {
    say_rest(job);
  }
  return more;
}

void Scheduler::advance(Job& job, std::span<const float> row) {
  const bool begins = job.length() == job.prompt;
  const std::int64_t before = job.length();
  const bool more = choose(job, row, job.cached());
  if (job.draft && !begins)
    drafting_->verified(*job.draft, std::span(job.ids).subspan(static_cast<std::size_t>(before)));
  if (drafting_ && more && !job.draft)
    job.draft = drafting_->begin(job.asked.tenant, job.asked.reuse, job.asked.drafters ? &*job.asked.drafters : nullptr,
                                 *job.answer, job.ids.capacity());
  go_on(job, more);
}

// Drafters that read states get those of `count` of the job's tokens, from `first` on, which are the step's rows from
// `row` on.
void Scheduler::show(Job& job, int row, std::int64_t first, std::int64_t count) {
  const std::vector<std::string>* names = job.asked.drafters ? &*job.asked.drafters : nullptr;
  if (!drafting_ || job.pools() || count < 1 || !drafting_->reads_states(names)) return;
  if (!job.draft)
    job.draft = drafting_->begin(job.asked.tenant, job.asked.reuse, names, *job.answer, job.ids.capacity());
  if (job.draft) drafting_->computed(*job.draft, {job.ids, first, count, row, &engine_.forward()});
}

// The rows of a step with draft tokens: each gives the token that its step alone would have given, as long as all draft
// tokens before it were right. What was computed behind a wrong one is cut off.
void Scheduler::verify(Job& job, std::span<const float> rows, std::size_t drafted, int row) {
  const auto vocab = static_cast<std::size_t>(card_.vocabulary);
  const auto before = static_cast<std::size_t>(job.length());
  const std::int64_t first = job.cached() - static_cast<std::int64_t>(drafted);  // tokens up to the answer's last one
  bool more = true;
  const std::size_t right = verify_drafts(std::span(job.draft->fed).subspan(1), [&](std::size_t i) {
    more = choose(job, rows.subspan(i * vocab, vocab), first + static_cast<std::int64_t>(i));
    return more ? job.ids.back() : -1;
  });
  const double start = steady_seconds();
  if (right < drafted) engine_.cache().truncate(job.sequence, first + static_cast<std::int64_t>(right));
  job.draft->stats.rollback_seconds += steady_seconds() - start;
  job.outcome.decode_steps += static_cast<std::int64_t>(right);
  drafting_->verified(*job.draft, std::span(job.ids).subspan(before));
  show(job, row, first - 1, std::min(static_cast<std::int64_t>(right) + 1, job.length() - first + 1));
  start_followers(job);
  offer_step(job);
  go_on(job, more);
}

void Scheduler::go_on(Job& job, bool more) {
  if (!more) return finish(job);
  if (job.cached() + 1 >= engine_.context()) shift(job);
}

// Text that was held back and that no token brought.
void Scheduler::say_rest(Job& job) {
  if (job.answer->text().empty()) return;
  const TokenRecord none{-1, 0, {}};
  const Piece piece{none, job.answer->text()};
  job.listener->pieces({&piece, 1});
}

void Scheduler::release(Job& job) {
  if (job.sequence) engine_.cache().release(job.sequence);
  job.sequence = nullptr;
  job.blended = {};
  job.leader = {};
  if (job.kept.search) job.kept.search->abandon();  // its thread may outlive the scheduler
  job.kept.search.reset();
}

PageCounts Scheduler::count_pages(const Job& job) const {
  if (!job.sequence) return {};
  const std::int64_t whole = job.cached() / kv::kPageTokens;
  const std::int64_t reused = std::min(job.outcome.receipt.reused_tokens / kv::kPageTokens, whole);
  return {.reused = reused,
          .computed = whole - reused,
          .sealed = engine_.cache().stats(*job.sequence).sealed_tokens / kv::kPageTokens};
}

// A request that ends within its prompt had the first `tokens` of it only.
static void cut_spans(Receipt& receipt, std::int64_t tokens) {
  std::erase_if(receipt.spans, [&](const Span& s) { return s.begin >= tokens; });
  if (!receipt.spans.empty()) receipt.spans.back().end = std::min(receipt.spans.back().end, tokens);
}

// Ends a job: with what its answer says, as cancelled when that is not over, or with an error.
void Scheduler::finish(Job& job, Failure failure, std::string error) {
  if (job.over) return;
  job.over = true;
  if (!job.answer->over()) {
    job.answer->stop(Finish::kCancelled);
    say_rest(job);
  }
  leave_followers(job);
  Outcome& out = job.outcome;
  out.failure = failure;
  out.error = std::move(error);
  out.finish = job.answer->finish();
  out.stopped_by = job.answer->stopped_by();
  out.completion_tokens = job.answer->size();
  if (job.at.started > 0) out.weights = engine_.model().layers().stats() - job.weights_before;
  out.device = engine_.cache().stats().device;
  if (job.at.first_token > 0) out.decode_seconds = steady_seconds() - job.at.first_token;
  Receipt& receipt = out.receipt;
  out.thinking_tokens = job.answer->thinking_cut();
  const std::int64_t computed = out.shifts > 0 ? out.prompt_tokens : std::min(job.cached(), job.prompt);
  if (job.blended.on())
    cut_spans(receipt, computed);
  else if (computed > receipt.reused_tokens && out.shifts == 0)
    receipt.spans.push_back({receipt.reused_tokens, computed, "computed"});
  receipt.pages = count_pages(job);
  receipt.k_codec = card_.k_codec;
  receipt.v_codec = card_.v_codec;
  if (job.sequence) {
    receipt.state_bytes = engine_.cache().rules().recurrent_bytes(job.cached());
    const kv::SequenceStats stats = engine_.cache().stats(*job.sequence);
    receipt.select = stats.select;
    receipt.selection = stats.selection;
  }
  offer_end(job);
  if (job.draft) {
    out.draft = job.draft->stats;
    drafting_->end(std::move(job.draft), job.ids);
  }
  release(job);
  {
    const std::lock_guard lock(mutex_);
    stats_.pages += receipt.pages;
    stats_.selection += receipt.selection.total();
    stats_.prompt_tokens += static_cast<std::uint64_t>(computed);
    stats_.reused_tokens += static_cast<std::uint64_t>(receipt.reused_tokens);
    stats_.relocated_tokens += static_cast<std::uint64_t>(receipt.blend.relocated_tokens);
    stats_.repaired_tokens += static_cast<std::uint64_t>(receipt.blend.repaired_tokens);
    stats_.generated_tokens += static_cast<std::uint64_t>(out.completion_tokens);
    stats_.drafts += out.draft;
    stats_.stopped += failure == Failure::kNone && (out.finish == Finish::kEnd || out.finish == Finish::kStop);
    stats_.cut += failure == Failure::kNone && (out.finish == Finish::kLength || out.finish == Finish::kContext);
    stats_.cancelled += out.finish == Finish::kCancelled && failure == Failure::kNone;
    stats_.failed += failure != Failure::kNone;
  }
  job.listener->done(out);
}

}  // namespace kvasir::run
