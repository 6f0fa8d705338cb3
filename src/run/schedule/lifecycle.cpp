#include "run/schedule/lifecycle.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "kv/page.hpp"

namespace kvasir::run {
namespace {

// A request that ends within its prompt had the first `tokens` of it only.
void cut_spans(Receipt& receipt, std::int64_t tokens) {
  std::erase_if(receipt.spans, [&](const Span& s) { return s.begin >= tokens; });
  if (!receipt.spans.empty()) receipt.spans.back().end = std::min(receipt.spans.back().end, tokens);
}

}  // namespace

void Lifecycle::start(Job& job) {
  if (job.at.started > 0) return;
  job.at.started = steady_seconds();
  job.weights_before = engine_.model().layers().stats();
  job.outcome.receipt.queue_seconds = job.at.started - job.at.submitted;
  job.listener->started();
}

void Lifecycle::release(Job& job) {
  rows_.drop(job);
  if (job.sequence) engine_.cache().release(job.sequence);
  job.sequence = nullptr;
  job.blended = {};
  job.leader = {};
  reuse_.abandon(job);
}

void Lifecycle::preempt(Job& job) {
  sharing_.leave_followers(job);
  reuse_.offer(job, store::Library::Offering::kLast);
  release(job);
  if (job.outcome.shifts == 0) {  // else the receipt is about a prompt that was computed long ago
    job.outcome.receipt.spans.clear();
    job.outcome.receipt.reused_tokens = 0;
    job.outcome.receipt.blend = {};
  }
  shared_.count_preemption();
}

void Lifecycle::shift(Job& job) {
  Outcome& out = job.outcome;
  Receipt& receipt = out.receipt;
  if (out.shifts == 0 && !job.blended.on() && job.prompt > receipt.reused_tokens)
    receipt.spans.push_back({receipt.reused_tokens, job.prompt, "computed"});
  const std::int64_t keep = std::min(job.asked.request.keep, job.length() / 2);
  const std::int64_t dropped = (job.length() - keep) / 2;
  reuse_.offer(job, store::Library::Offering::kLast);
  sharing_.leave_followers(job);
  reuse_.forget(job);
  release(job);
  job.sequence = engine_.cache().create();
  engine_.cache().set_selection(job.sequence, job.selector());
  job.ids.erase(job.ids.begin() + keep, job.ids.begin() + keep + dropped);
  job.prompt = job.length();
  job.answer->make_room();
  ++out.shifts;
  out.shifted_tokens += dropped;
}

PageCounts Lifecycle::count_pages(const Job& job) const {
  if (!job.sequence) return {};
  const std::int64_t whole = job.cached() / kv::kPageTokens;
  const std::int64_t reused = std::min(job.outcome.receipt.reused_tokens / kv::kPageTokens, whole);
  return {.reused = reused,
          .computed = whole - reused,
          .sealed = engine_.cache().stats(*job.sequence).sealed_tokens / kv::kPageTokens};
}

void Lifecycle::finish(Job& job, Failure failure, std::string error) {
  if (job.over) return;
  job.over = true;
  if (!job.answer->over()) {
    job.answer->stop(Finish::kCancelled);
    job.say_rest();
  }
  sharing_.leave_followers(job);
  Outcome& out = job.outcome;
  out.failure = failure;
  out.error = std::move(error);
  out.finish = job.answer->finish();
  out.stopped_by = job.answer->stopped_by();
  out.completion_tokens = job.answer->size();
  out.thinking_tokens = job.answer->thinking_cut();
  if (job.at.started > 0) out.weights = engine_.model().layers().stats() - job.weights_before;
  out.device = engine_.cache().stats().device;
  out.products = engine_.product_stats();
  if (job.at.first_token > 0) out.decode_seconds = steady_seconds() - job.at.first_token;
  Receipt& receipt = out.receipt;
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
  AwaitedRows::count(job);
  reuse_.offer_end(job);
  speculation_.end(job);
  release(job);
  shared_.count_request(out, computed);
  job.listener->done(out);
}

}  // namespace kvasir::run
