// The scheduler's half that knows what is known already: where a request begins, whom it shares with, what it leaves.
#include <algorithm>
#include <chrono>
#include <functional>

#include "base/clock.hpp"
#include "kv/page.hpp"
#include "run/scheduler_job.hpp"
#include "store/tail.hpp"

namespace kvasir::run {
namespace {

// Common beginnings below this many tokens are computed again: a step does as much.
constexpr std::int64_t kLeastShare = 32;
// A search of slow tiers that takes longer is given up: by then a few tokens are computed.
constexpr auto kSearchTime = std::chrono::milliseconds(500);
// A tail is as large as about four sealed pages, so one in the middle of a prompt has to save more than this many
// tokens.
constexpr std::int64_t kLeastSaved = 4 * kv::kPageTokens;
// However two texts part, fewer than so many tokens that they share are behind the last tail.
constexpr std::int64_t kTailEvery = 1024;

// So far into the page of token `at` that the tail's key is that of the pages before.
std::int64_t page_start(std::int64_t at) { return at / kv::kPageTokens * kv::kPageTokens + store::kTailGrain; }

// The next place behind `at` where every text leaves a tail, however long it is: in the last page before a multiple of
// kTailEvery, so that steps which end there make it in passing.
std::int64_t next_tail(std::int64_t at) {
  constexpr std::int64_t kBefore = kv::kPageTokens - store::kTailGrain;
  return (at + kBefore) / kTailEvery * kTailEvery + kTailEvery - kBefore;
}

// Prompts part where no message ends too: in front of the question behind a document. Points at two distances from the
// end, and the first of those that every text has behind the end: later ones follow it. The first `have` tokens are
// restored.
std::vector<std::int64_t> waypoints(std::int64_t prompt, std::int64_t have) {
  std::vector<std::int64_t> points;
  for (const std::int64_t distance : {kv::kPageTokens, 4 * kv::kPageTokens})
    if (const std::int64_t at = page_start(prompt - distance); at >= have + kLeastSaved) points.push_back(at);
  for (std::int64_t at = next_tail(have); points.push_back(at), at < prompt;) at = next_tail(at);
  return points;
}

// Where pages suffice: the sinks, which no page has, under a key that tells texts from each other; and the last page,
// which is not sealed yet.
std::vector<std::int64_t> page_waypoints(std::int64_t prompt, std::int64_t sinks) {
  const std::int64_t first = (sinks + store::kTailGrain - 1) / store::kTailGrain * store::kTailGrain + 1;
  std::vector<std::int64_t> points = {std::clamp<std::int64_t>(first, store::kTailGrain + 1, kv::kPageTokens)};
  if (prompt > kv::kPageTokens) points.push_back(page_start(prompt - 1));
  return points;
}

}  // namespace

// Asks what is known of the prompt; the answer may come later and wakes the engine's thread then.
void Scheduler::search(Job& job) {
  if (!library_ || !job.asked.reuse || job.outcome.shifts > 0) return;
  job.kept.chain = std::make_unique<store::Chain>(library_->fingerprint(), job.asked.tenant);
  if (!job.reuses()) return;
  const auto done = [this] {
    const std::lock_guard lock(mutex_);
    searched_ = true;
    wake_.notify_all();
  };
  // Of a prompt that reads choices only what it would compute as any other does: an answer must not depend on what a
  // store knew.
  const auto exact = static_cast<std::size_t>(exact_prompt(job));
  job.kept.search =
      library_->search(job.asked.tenant, std::span(job.ids).first(exact), store::within(kSearchTime), done,
                       no_blend_.empty() && wants_blend(job),
                       [runs = job.asked.request.runs](std::int64_t n) { return model::common_end(runs, n); });
}

std::int64_t Scheduler::exact_prompt(const Job& job) const {
  return engine_.cache().rules().exact_prompt(job.asked.request.select, static_cast<std::int64_t>(job.ids.size()));
}

// The job's search is over, or there is none: it starts with what is known.
void Scheduler::begin(Job& job) {
  store::Known known;
  if (job.kept.search) known = job.kept.search->take();
  job.kept.search.reset();
  std::vector<std::int64_t> points = checkpoints_of(job);
  const bool blends = wants_blend(job);
  job.outcome.receipt.blend = {};
  if (!blends) job.leader = find_leader(job);
  // It gets its fork when the leader is there.
  const bool follows = job.leader.job && job.leader.share >= known.tokens;
  if (!follows) {
    job.leader = {};
    if (known.tokens > 0) restore(job, known);
    if (!job.sequence) job.sequence = engine_.cache().create();
    if (blends) blend(job);
    engine_.cache().set_selection(job.sequence, job.asked.request.select);
  }
  if (!library_ || !job.asked.reuse) return;
  const std::int64_t have = follows ? job.leader.share : job.cached();
  const kv::Cache& cache = engine_.cache();
  const std::vector<std::int64_t> inside =
      cache.rules().pages_suffice() ? page_waypoints(job.prompt, cache.rules().sinks()) : waypoints(job.prompt, have);
  points.insert(points.end(), inside.begin(), inside.end());
  if (!follows) {
    explain_miss(job, known);
    // Where this prompt parts from an earlier one a third may part too.
    if (known.nearest >= have + kLeastShare) points.push_back(known.nearest);
  }
  if (job.blended.on()) return;  // what it computes is kept by itself alone
  const std::int64_t last = cache.rules().pages_suffice() ? 0 : next_tail(std::max(have, job.prompt - 1));
  std::erase_if(points, [&](std::int64_t at) { return at <= have || (at >= job.prompt && at != last); });
  std::sort(points.begin(), points.end(), std::greater<>());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  job.kept.checkpoints = std::move(points);
}

// Where other prompts may part from this one: as asked, else behind the first message (what the system says) and the
// last one, which end with a token that ends texts.
std::vector<std::int64_t> Scheduler::checkpoints_of(const Job& job) const {
  if (!library_ || !job.asked.reuse) return {};
  std::vector<std::int64_t> points = job.asked.partings;
  // What follows a picture changes more often than the picture.
  for (const model::RowRun& run : job.asked.request.runs) points.push_back(run.end());
  std::erase_if(points, [](std::int64_t at) { return at < kLeastShare; });
  // The same prompt again takes all but its last token, which must not have a page of its own then.
  if (job.prompt % kv::kPageTokens == 1 && job.prompt > 1) points.push_back(job.prompt - 1);
  if (!job.asked.checkpoints.empty()) {
    points.insert(points.end(), job.asked.checkpoints.begin(), job.asked.checkpoints.end());
    return points;
  }
  const text::Tokenizer* tokenizer = engine_.tokenizer();
  const auto ends = [&](std::int64_t i) {
    return tokenizer && tokenizer->is_eog(job.ids[static_cast<std::size_t>(i)]);
  };
  std::int64_t last = job.prompt - 1;
  while (last >= 0 && !ends(last)) --last;
  std::int64_t first = 0;
  while (first < last && !ends(first)) ++first;
  if (last + 1 >= kLeastShare) points.push_back(last + 1);
  if (first < last && first + 1 >= kLeastShare) points.push_back(first + 1);
  return points;
}

void Scheduler::restore(Job& job, const store::Known& known) {
  const double start = steady_seconds();
  job.sequence = library_->restore(known, job.ids, *job.kept.chain);
  if (!job.sequence) return;
  const store::RecordView& tail = known.tail.record;
  if (token_microseconds_ <= 0 && tail.n_tokens() > 0)  // nothing was computed yet in this process
    token_microseconds_ = tail.head.cost / static_cast<double>(tail.n_tokens());
  Receipt& receipt = job.outcome.receipt;
  // A request that was preempted gets back tokens of its answer too: the receipt is about the prompt.
  for (const store::Part& part : known.parts)
    if (part.begin < job.prompt)
      receipt.spans.push_back(
          {part.begin, std::min(part.end, job.prompt), library_->labels()[static_cast<std::size_t>(part.tier)]});
  receipt.reused_tokens = std::min(known.tokens, job.prompt);
  receipt.loaded_bytes = known.bytes;
  receipt.load_seconds = known.seconds + steady_seconds() - start;
}

void Scheduler::explain_miss(Job& job, const store::Known& known) const {
  std::string& miss = job.outcome.receipt.miss;
  job.outcome.receipt.miss_token = -1;
  const std::int64_t have = job.cached();
  if (!job.reuses() || have >= job.prompt - 1) return;
  const auto token = [&](std::int64_t at) {
    const auto* t = engine_.tokenizer();
    return t && job.ids[static_cast<std::size_t>(at)] >= 0
               ? " ('" + std::string(t->piece(job.ids[static_cast<std::size_t>(at)])) + "')"
               : std::string();
  };
  const auto parts_at = [&](std::int64_t at) {
    job.outcome.receipt.miss_token = at;
    return std::to_string(at) + token(at) + " on";
  };
  const std::string restored = std::to_string(have) + " of them can be restored";
  if (known.nearest == 0 && have == 0)
    miss = "no earlier prompt begins like this one";
  else if (known.nearest > have && known.nearest_ends)
    miss = "an earlier prompt is the first " + std::to_string(known.nearest) + " tokens of this one; " + restored;
  else if (known.nearest > have && known.nearest < job.prompt)
    miss = "the nearest earlier prompt differs from token " + parts_at(known.nearest) + ", " +
           std::to_string(known.nearest) + " tokens are equal; " + restored;
  else if (known.nearest > have)
    miss = "an earlier prompt begins with all of this one; " + restored;
  else
    miss = "nothing stored goes on like this one from token " + parts_at(have);
}

void Scheduler::offer(Job& job, store::Library::Offering offering) {
  if (job.kept.chain && job.sequence)
    library_->offer(*job.kept.chain, job.ids, *job.sequence, offering, static_cast<float>(token_microseconds_));
}

void Scheduler::offer_tail(Job& job, std::int64_t at) {
  if (model::common_end(job.asked.request.runs, at) < at) return;  // nobody could begin there
  if (job.kept.chain && at <= kv::Cache::exact_tokens(*job.sequence))
    library_->offer_tail(*job.kept.chain, job.ids, *job.sequence, at, static_cast<float>(token_microseconds_));
}

// What a step computed, and the tails at the checkpoints that it passed: those that are left lie ahead.
void Scheduler::offer_step(Job& job) {
  offer(job, store::Library::Offering::kChunks);
  auto& points = job.kept.checkpoints;
  while (!points.empty() && points.back() <= job.cached()) {
    const std::int64_t at = points.back();
    offer_tail(job, at);
    points.pop_back();
    if (points.empty() && !engine_.cache().rules().pages_suffice()) points.push_back(next_tail(at));  // in its answer
  }
}

// The end of the answer, and the beginning of its last page: it may come back changed near its end.
void Scheduler::offer_end(Job& job) {
  const std::int64_t n = job.cached(), at = page_start(n - 1);
  offer(job, store::Library::Offering::kLast);
  if (!job.blended.on() && at > job.prompt && at + store::kTailGrain <= n) offer_tail(job, at);
}

// The running job that has the longest beginning in common and can still give it.
Scheduler::Lead Scheduler::find_leader(const Job& job) const {
  Lead best;
  if (!job.reuses()) return best;
  const kv::Cache& cache = engine_.cache();
  for (const auto& r : running_) {
    if (r.get() == &job || r->over || r->kept.search || r->blended.on() || !r->asked.reuse ||
        r->asked.tenant != job.asked.tenant)
      continue;
    const std::int64_t most = std::min({r->prompt, job.length() - 1, exact_prompt(*r), exact_prompt(job)});
    const auto differ = std::mismatch(job.ids.begin(), job.ids.begin() + most, r->ids.begin());
    const std::int64_t common = model::common_end(job.asked.request.runs, differ.first - job.ids.begin());
    if (common < std::max(kLeastShare, best.share + 1)) continue;
    if (r->leader.job && r->leader.share >= common) continue;  // its leader is asked too
    if (r->cached() > common && !cache.can_truncate(*r->sequence, common)) continue;
    best = {r.get(), common};
  }
  return best;
}

// Jobs whose search is over begin.
void Scheduler::begin_searched() {
  for (auto& job : running_)
    if (!job->over && job->kept.search && job->kept.search->ready()) begin(*job);
}

// Followers whose part is computed take it.
void Scheduler::start_followers(Job& leader) {
  for (auto& job : running_) {
    if (job->leader.job != &leader || leader.cached() < job->leader.share) continue;
    const std::int64_t share = job->leader.share;
    job->sequence = engine_.cache().fork(*leader.sequence);
    engine_.cache().truncate(job->sequence, share);
    engine_.cache().set_selection(job->sequence, job->asked.request.select);
    if (job->kept.chain && leader.kept.chain) job->kept.chain->share(*leader.kept.chain, share / kv::kPageTokens);
    job->leader = {};
    took_live(*job, share);
  }
}

// A leader ends before its followers have their part: they go on by themselves.
void Scheduler::leave_followers(Job& leader) {
  for (auto& job : running_) {
    if (job->leader.job != &leader) continue;
    const std::int64_t share = job->leader.share;
    job->leader = {};
    if (leader.sequence && leader.cached() >= kLeastShare && leader.cached() <= share) {
      job->sequence = engine_.cache().fork(*leader.sequence);
      took_live(*job, leader.cached());
    } else {
      job->sequence = engine_.cache().create();
    }
    engine_.cache().set_selection(job->sequence, job->asked.request.select);
  }
}

// The first `tokens` of its prompt are pages of another request that runs.
void Scheduler::took_live(Job& job, std::int64_t tokens) {
  job.outcome.receipt.spans.push_back({0, tokens, "live"});
  job.outcome.receipt.reused_tokens = tokens;
}

// The prompt is computed: later requests may have it.
void Scheduler::offer_prompt(Job& job) {
  if (job.kept.prompt_offered) return;
  if (job.asked.pin && !job.kept.chain) job.outcome.receipt.pin_error = "nothing of this request is kept";
  if (!job.kept.chain) return;
  job.kept.prompt_offered = true;
  offer(job, store::Library::Offering::kTail);
  library_->remember(job.asked.tenant, std::span(job.ids).first(static_cast<std::size_t>(job.prompt)));
  std::vector<std::int64_t> borders = job.asked.partings;
  borders.insert(borders.end(), job.asked.checkpoints.begin(), job.asked.checkpoints.end());
  std::sort(borders.begin(), borders.end());
  if (job.asked.request.runs.empty())  // texts with rows are found where they stand
    library_->remember_segments(*job.kept.chain, job.asked.tenant, job.ids,
                                engine_.cache().rules().sealed_pages(job.cached()) * kv::kPageTokens, borders);
  if (job.asked.pin) pin(job);
}

// With the tails that later prompts may start from: a chunk alone restores nothing.
void Scheduler::pin(Job& job) {
  std::vector<std::int64_t> ends = checkpoints_of(job);
  ends.push_back(job.prompt);
  if (const kv::Cache& cache = engine_.cache(); cache.rules().pages_suffice()) {
    const std::vector<std::int64_t> inside = page_waypoints(job.prompt, cache.rules().sinks());
    ends.insert(ends.end(), inside.begin(), inside.end());
  }
  std::erase_if(ends, [&](std::int64_t at) { return model::common_end(job.asked.request.runs, at) < at; });
  const auto ttl =
      std::chrono::duration_cast<store::Clock::duration>(std::chrono::duration<double>(job.asked.pin_seconds));
  job.outcome.receipt.pin_error =
      library_->pin(job.asked.tenant, std::span(job.ids).first(static_cast<std::size_t>(job.prompt)), ends, ttl).why;
}

bool Scheduler::unpin(const std::string& tenant, std::span<const std::int32_t> prompt) {
  return library_ && library_->unpin(tenant, prompt);
}

}  // namespace kvasir::run
