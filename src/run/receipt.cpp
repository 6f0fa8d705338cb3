#include "run/receipt.hpp"

#include <nlohmann/json.hpp>

#include "run/device_stats.hpp"
#include "run/selection.hpp"
#include "run/weights_stats.hpp"

namespace kvasir::run {
namespace {

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json blend_json(const BlendReceipt& b) {
  return {{"strategy", b.strategy},
          {"relocated_tokens", b.relocated_tokens},
          {"repaired_tokens", b.repaired_tokens},
          {"lost_tokens", b.lost_tokens},
          {"deviation", b.deviation},
          {"seconds", b.seconds},
          {"saved_seconds", b.saved_seconds},
          {"refused", or_null(b.refused)}};
}

}  // namespace

static Json rows_json(const RowReceipt& r) {
  return {{"count", r.count}, {"reused", r.reused}, {"waited", r.waited}, {"wait_seconds", r.wait_seconds}};
}

Json receipt_json(const Outcome& outcome) {
  const Receipt& r = outcome.receipt;
  Json spans = Json::array();
  for (const Span& s : r.spans) spans.push_back({{"begin", s.begin}, {"end", s.end}, {"source", s.source}});
  const double first = r.queue_seconds + r.prefill_seconds;
  Json out{{"spans", std::move(spans)},
           {"reused_tokens", r.reused_tokens},
           {"computed_tokens", r.computed(outcome.prompt_tokens)},
           {"pages", {{"reused", r.pages.reused}, {"computed", r.pages.computed}, {"sealed", r.pages.sealed}}},
           {"k_codec", r.k_codec},
           {"v_codec", r.v_codec},
           {"loaded_bytes", r.loaded_bytes},
           {"state_bytes", r.state_bytes},
           {"load_seconds", r.load_seconds},
           {"ttft_ms", 1e3 * first},
           {"total_ms", 1e3 * (first + outcome.decode_seconds)},
           {"queue_seconds", r.queue_seconds},
           {"prefill_seconds", r.prefill_seconds},
           {"decode_seconds", outcome.decode_seconds},
           {"seed", outcome.seed},
           {"finish", name(outcome.finish)},
           {"miss", or_null(r.miss)}};
  if (r.blend.asked) out["blend"] = blend_json(r.blend);
  if (r.rows.count > 0) out["rows"] = rows_json(r.rows);
  if (!outcome.draft.sources.empty()) out["draft"] = draft_json(outcome.draft);
  if (outcome.weights.any()) out["weights"] = weights_json(outcome.weights);
  if (!outcome.device.name.empty()) out["device"] = device_json(outcome.device, outcome.products);
  if (outcome.thinking_tokens >= 0) out["thinking_cut"] = outcome.thinking_tokens;
  if (!r.select.empty()) out["select"] = selection_json(r);
  return out;
}

}  // namespace kvasir::run
