#include "run/schedule/blending.hpp"

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "model/relocation.hpp"

namespace kvasir::run {
namespace {

constexpr auto kFindTime = std::chrono::milliseconds(500);
constexpr const char* kNote = "blend";
// What saves less than this share of the time is computed exactly.
constexpr double kLeastSaving = 0.2;

void add_span(Receipt& receipt, std::int64_t begin, std::int64_t end, const char* source) {
  if (end > begin) receipt.spans.push_back({begin, end, source});
}

// Where the first rows stand that the plan computes in front of a run of its own, and that are not there yet; -1: none.
std::int64_t first_awaited(const BlendPlan& plan, std::span<const model::RowRun> rows) {
  if (plan.runs.empty()) return -1;
  for (const model::RowRun& run : fresh_rows(plan, rows)) {
    const std::int64_t at = plan.fresh[static_cast<std::size_t>(run.begin)];
    if (at < plan.runs.back().begin && !run.block->ready()) return at;
  }
  return -1;
}

}  // namespace

Blending::Blending(Engine& engine, const BlendOptions& options, store::Library* library)
    : engine_(engine),
      options_(options),
      library_(library),
      unfit_(model::why_not_relocated(engine.model().spec(), engine.options().whole_windows)) {}

BlendOptions Blending::options_of(const ServiceRequest& asked) const {
  BlendOptions o = options_;
  const BlendRequest& r = asked.blend;
  if (!r.reuse.empty()) o.reuse = r.reuse;
  if (!r.strategy.empty()) o.strategy = r.strategy;
  o.ratio = r.ratio.value_or(o.ratio);
  o.first_rows = r.first_rows.value_or(o.first_rows);
  o.check_layer = r.check_layer.value_or(o.check_layer);
  o.second_layer = r.second_layer.value_or(o.second_layer);
  return o;
}

bool Blending::wants(const Job& job) const {
  return library_ && job.reuses() && options_of(job.asked).reuse == "blend";
}

// What is tested is the server's own ratio, once. The strategies without comparisons are for whoever measures them.
bool Blending::recall() {
  if (verdict_) return true;
  if (!test_) {
    if (const auto kept = library_->notes().read(kNote, store::within(kFindTime)))
      verdict_ = from_note({reinterpret_cast<const char*>(kept->data()), kept->size()}, options_);
    if (!verdict_) test_ = std::make_unique<BlendTest>(engine_, options_);
  }
  return verdict_.has_value();
}

void Blending::prove_first(bool always) {
  if (library_ && unfit_.empty() && (always || options_.reuse == "blend") && !recall()) prove(nullptr);
}

void Blending::prove(const std::function<bool()>& go_on) {
  try {
    if (!test_->run(go_on)) return;
    verdict_ = test_->verdict();
    const std::string note = to_note(*verdict_, options_);
    library_->notes().keep(kNote, std::as_bytes(std::span(note)), store::Notes::kDear);
  } catch (const Error& e) {  // no room, or a disk that fails: the next request that asks has it tried again
    proof_failed_ = e.what();
  }
  test_.reset();
}

void Blending::blend(Job& job, double token_seconds) {
  const double start = steady_seconds();
  BlendReceipt& b = job.outcome.receipt.blend;
  relocate(job);
  b.seconds = steady_seconds() - start;
  if (b.refused.empty()) b.saved_seconds = token_seconds * static_cast<double>(b.relocated_tokens) - b.seconds;
}

void Blending::relocate(Job& job) {
  BlendOptions o = options_of(job.asked);
  const model::ModelSpec& spec = engine_.model().spec();
  Receipt& receipt = job.outcome.receipt;
  BlendReceipt& b = receipt.blend;
  b.asked = true;
  b.strategy = o.strategy;
  b.refused = unfit_;
  if (o.repaired_ratio() >= 1) b.refused = "every row would be computed again, so all are, exactly";
  if (!b.refused.empty()) return;
  const std::vector<model::RowRun>& rows = job.asked.request.runs;
  const std::int64_t exact = job.cached(), n = job.length();
  // With positions of three parts what stands behind a picture is not turned by how far its elements moved.
  const bool placed = spec.has_places() && !rows.empty();
  const std::int64_t to = placed ? std::max(exact, std::min(n - 1, rows.front().begin)) : n - 1;
  store::Moved moved = library_->find_moved(
      job.space, job.ids, {.from = exact, .to = to, .behind_rows = !spec.has_places()}, store::within(kFindTime));
  b.lost_tokens = moved.lost;
  BlendPlan plan = plan_blend(exact, n, moved, o, rows);
  if (const auto lacks = first_awaited(plan, rows); lacks >= 0 && o.repaired_ratio() > 0) {
    // What stands behind it cannot be compared yet.
    std::erase_if(moved.runs, [&](const store::Moved::Run& run) { return run.begin > lacks; });
    plan = plan_blend(exact, n, moved, o, rows);
    if (plan.runs.empty()) b.refused = "what is known at another place stands behind a picture that is not encoded yet";
  }
  if (b.refused.empty() && plan.runs.empty()) {
    b.refused = "nothing behind the first " + std::to_string(exact) + " tokens is known at another place";
    if (placed) b.refused += ", and nothing behind a picture can be read elsewhere (M-RoPE)";
    if (moved.lost > 0)
      b.refused += ", but for " + std::to_string(moved.lost) + " whose pages were evicted or did not come in time";
  }
  if (!b.refused.empty()) return;
  if (o.strategy == "blend") {
    if (!recall())
      b.refused = proof_failed_.empty()
                      ? "the model is not tested yet: that is done when nothing else is computed, and "
                        "at the start with --reuse blend"
                      : proof_failed_;
    else if (!verdict_->allowed)
      b.refused = verdict_->why;
    else if (verdict_->ratio > options_.ratio)
      o.ratio = std::max(o.ratio, verdict_->ratio);
    if (!b.refused.empty()) return;
  }
  const int layers = spec.layer_count();
  const double share = share_of_time(plan, n, checks_of(spec, o), o, layers);
  if (share > 1 - kLeastSaving) {
    b.refused = "it would save less than " + std::to_string(static_cast<int>(100 * kLeastSaving)) + " % of the time";
    return;
  }
  try {
    const AdoptedPages pages(engine_.cache(), moved, plan);
    repair(engine_, *job.sequence, {.ids = job.ids, .rows = rows, .adapters = job.adapters}, moved, pages, o, &plan);
    borrow(engine_.cache(), job.sequence, pages, plan);
  } catch (const Error& e) {
    if (e.code() != Code::kMemory && e.code() != Code::kIo) throw;  // kIo: weights that are streamed
    b.refused = e.what();
    return;
  }
  for (const std::int64_t at : plan.fresh) job.blended.ids.push_back(job.ids[static_cast<std::size_t>(at)]);
  job.blended.runs = fresh_rows(plan, rows);
  job.blended.known_rows = plan.elements;
  std::int64_t at = exact;
  for (const store::Moved::Run& run : plan.runs) {
    if (run.begin >= job.prompt) break;  // a preempted job's answer
    add_span(receipt, at, run.begin, "computed");
    at = std::min(run.end, job.prompt);
    add_span(receipt, run.begin, at, "relocated");
  }
  add_span(receipt, at, job.prompt, "computed");
  b.relocated_tokens = plan.relocated;
  b.repaired_tokens = plan.repaired;
  b.deviation = plan.deviation;
  receipt.loaded_bytes += moved.bytes;
  receipt.load_seconds += moved.seconds;
}

}  // namespace kvasir::run
