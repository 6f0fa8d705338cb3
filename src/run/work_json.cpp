#include "run/work_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "run/selection.hpp"
#include "run/weights_stats.hpp"

namespace kvasir::run {

Json work_json(const ServiceStats& s) {
  const auto or_null = [](bool any, double value) { return any ? Json(value) : Json(nullptr); };
  const StepStats& w = s.work;
  const DraftTotals& d = s.drafts;
  Json out = {
      {"hit_share", or_null(s.prompt_tokens > 0, s.hit_share())},
      {"rates",
       {{"prompt_tokens_per_second", or_null(w.prompt_seconds > 0, w.prompt_rate())},
        {"generated_tokens_per_second", or_null(w.answer_seconds > 0, w.answer_rate())},
        {"prompt_seconds", w.prompt_seconds},
        {"generated_seconds", w.answer_seconds}}},
      {"batch", {{"steps", w.steps}, {"mean", or_null(w.steps > 0, w.batch())}, {"most", w.most_answers}}},
      {"pool",
       {{"pages", s.pool.pages},
        {"used", s.pool.used()},
        {"free", s.pool.free},
        {"shared", s.pool.shared},
        {"utilisation", or_null(s.pool.pages > 0, static_cast<double>(s.pool.used()) /
                                                      static_cast<double>(std::max<std::int64_t>(1, s.pool.pages)))}}},
      {"drafts",
       {{"steps", d.steps},
        {"tokens", d.tokens},
        {"drafted", d.drafted},
        {"accepted", d.accepted},
        {"histogram", d.histogram},
        {"draft_seconds", d.draft_seconds},
        {"verify_seconds", d.verify_seconds},
        {"rollback_seconds", d.rollback_seconds}}},
      {"selection", selection_stats_json(s.selection)}};
  if (s.streams) out["weights"] = weights_json(s.weights);
  return out;
}

}  // namespace kvasir::run
