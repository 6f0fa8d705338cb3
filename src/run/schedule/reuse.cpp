#include "run/schedule/reuse.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "kv/page.hpp"
#include "run/schedule/checkpoints.hpp"
#include "store/tail.hpp"

namespace kvasir::run {
namespace {

// A search of slow tiers that takes longer is given up: by then a few tokens are computed.
constexpr auto kSearchTime = std::chrono::milliseconds(500);

}  // namespace

Reuse::Reuse(Engine& engine, store::Library* library, Sharing& sharing, Blending& blending,
             std::function<void()> on_found)
    : engine_(engine), library_(library), sharing_(sharing), blending_(blending), on_found_(std::move(on_found)) {}

void Reuse::search(Job& job) {
  if (library_ && job.asked.reuse && job.outcome.shifts == 0) {
    job.kept.chain = std::make_unique<store::Chain>(library_->fingerprint(), job.space);
    // Of a prompt that reads choices only what it would compute as any other does: an answer must not depend on what a
    // store knew.
    const auto exact = static_cast<std::size_t>(job.exact_prompt(engine_.cache()));
    if (job.reuses())
      job.kept.search = library_->search(
          job.space, std::span(job.ids).first(exact), store::within(kSearchTime), on_found_, blending_.reads_moved(job),
          [runs = job.asked.request.runs](std::int64_t n) { return model::common_end(runs, n); });
  }
  if (!job.kept.search || job.kept.search->ready()) begin(job);
}

// The job's search is over, or there is none: it starts with what is known.
void Reuse::begin(Job& job) {
  kv::Cache& cache = engine_.cache();
  store::Known known;
  if (job.kept.search) known = job.kept.search->take();
  job.kept.search.reset();
  const bool blends = blending_.wants(job);
  job.outcome.receipt.blend = {};
  if (!blends) job.leader = sharing_.find_leader(job);
  // It gets its fork when the leader is there.
  const bool follows = job.leader.job && job.leader.share >= known.tokens;
  if (!follows) {
    job.leader = {};
    if (known.tokens > 0) restore(job, known);
    if (!job.sequence) job.sequence = cache.create();
    if (blends) blending_.blend(job, 1e-6 * token_microseconds_);
    if (job.blended.on()) job.kept.chain.reset();  // from here on it is no text that a store could keep
    cache.set_selection(job.sequence, job.selector());
  }
  if (!library_ || !job.asked.reuse) return;
  const std::int64_t have = follows ? job.leader.share : job.cached();
  if (!follows) explain_miss(job, known);
  if (job.blended.on()) return;  // what it computes is kept by itself alone
  std::vector<std::int64_t> points = checkpoints_of(job);
  const std::vector<std::int64_t> inside =
      cache.rules().pages_suffice() ? page_waypoints(job.prompt, cache.rules().sinks()) : waypoints(job.prompt, have);
  points.insert(points.end(), inside.begin(), inside.end());
  // Where this prompt parts from an earlier one a third may part too.
  if (!follows && known.nearest >= have + kLeastKept) points.push_back(known.nearest);
  job.kept.checkpoints = ahead(std::move(points), job.prompt, have, !cache.rules().pages_suffice());
}

void Reuse::begin_searched(const Jobs& running) {
  for (const auto& job : running)
    if (!job->over && job->kept.search && job->kept.search->ready()) begin(*job);
}

std::vector<std::int64_t> Reuse::checkpoints_of(const Job& job) const {
  const text::Tokenizer* tokenizer = engine_.tokenizer();
  return message_checkpoints(job.asked, std::span(job.ids).first(static_cast<std::size_t>(job.prompt)),
                             [&](std::int32_t id) { return tokenizer && tokenizer->is_eog(id); });
}

void Reuse::restore(Job& job, const store::Known& known) {
  const double start = steady_seconds();
  job.sequence = library_->restore(known, job.ids, *job.kept.chain);
  if (!job.sequence) return;
  const store::RecordView& tail = known.tail.record;
  if (token_microseconds_ <= 0 && tail.n_tokens() > 0)  // nothing was computed yet in this process
    token_microseconds_ = tail.head.cost / static_cast<double>(tail.n_tokens());
  Receipt& receipt = job.outcome.receipt;
  // A request that was preempted gets back tokens of its answer too: the receipt is about the prompt.
  for (const store::TierRun& part : known.runs)
    if (part.begin < job.prompt)
      receipt.spans.push_back(
          {part.begin, std::min(part.end, job.prompt), library_->labels()[static_cast<std::size_t>(part.tier)]});
  receipt.reused_tokens = std::min(known.tokens, job.prompt);
  receipt.loaded_bytes = known.bytes;
  receipt.load_seconds = known.seconds + steady_seconds() - start;
}

void Reuse::explain_miss(Job& job, const store::Known& known) const {
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

void Reuse::offer(Job& job, store::Library::Offering offering) {
  if (job.kept.chain && job.sequence)
    library_->offer(*job.kept.chain, job.ids, *job.sequence, offering, static_cast<float>(token_microseconds_));
}

void Reuse::offer_tail(Job& job, std::int64_t at) {
  if (model::common_end(job.asked.request.runs, at) < at) return;  // nobody could begin there
  if (job.kept.chain && at <= kv::Rules::exact_tokens(*job.sequence))
    library_->offer_tail(*job.kept.chain, job.ids, *job.sequence, at, static_cast<float>(token_microseconds_));
}

void Reuse::offer_step(Job& job) {
  offer(job, store::Library::Offering::kChunks);
  auto& points = job.kept.checkpoints;
  while (!points.empty() && points.back() <= job.cached()) {
    const std::int64_t at = points.back();
    offer_tail(job, at);
    points.pop_back();
    if (points.empty() && !engine_.cache().rules().pages_suffice()) points.push_back(next_tail(at));  // in its answer
  }
}

void Reuse::offer_end(Job& job) {
  const std::int64_t n = job.cached(), at = std::max(page_start(n - 1), engine_.cache().rules().tail_kept_from(n));
  offer(job, store::Library::Offering::kLast);
  if (!job.blended.on() && at > job.prompt && at + store::kTailGrain <= n) offer_tail(job, at);
}

void Reuse::offer_prompt(Job& job) {
  if (job.kept.prompt_offered) return;
  if (job.asked.pin && !job.kept.chain) job.outcome.receipt.pin_error = "nothing of this request is kept";
  if (!job.kept.chain) return;
  job.kept.prompt_offered = true;
  offer(job, store::Library::Offering::kTail);
  library_->remember(job.space, std::span(job.ids).first(static_cast<std::size_t>(job.prompt)));
  std::vector<std::int64_t> borders = job.asked.partings;
  borders.insert(borders.end(), job.asked.checkpoints.begin(), job.asked.checkpoints.end());
  std::sort(borders.begin(), borders.end());
  library_->remember_pieces(*job.kept.chain, job.space, job.ids,
                            engine_.cache().rules().sealed_pages(job.cached()) * kv::kPageTokens, borders);
  if (job.asked.pin) pin(job);
}

// With the tails that later prompts may start from: a chunk alone restores nothing.
void Reuse::pin(Job& job) {
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
      library_->pin(job.space, std::span(job.ids).first(static_cast<std::size_t>(job.prompt)), ends, ttl).why;
}

void Reuse::forget(Job& job) {
  job.kept.chain.reset();
  job.kept.checkpoints.clear();
}

void Reuse::abandon(Job& job) {
  if (job.kept.search) job.kept.search->abandon();  // its thread may outlive the scheduler
  job.kept.search.reset();
}

void Reuse::learn_cost(std::int64_t tokens, double seconds) {
  const double mean = seconds * 1e6 / static_cast<double>(tokens);
  token_microseconds_ = token_microseconds_ > 0 ? 0.8 * token_microseconds_ + 0.2 * mean : mean;
}

}  // namespace kvasir::run
