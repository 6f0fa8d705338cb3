#include "run/draft_figures.hpp"

#include <fmt/format.h>

#include <span>

namespace kvasir::run {

std::string draft_line(const DraftFigures& f) {
  std::string line =
      fmt::format("{} of {} guesses were right, {:.2f} tokens per step", f.accepted, f.drafted, f.tokens_per_step());
  for (const DraftFigures::Source& s : f.sources)
    if (f.sources.size() > 1) line += fmt::format("; {} {} of {}", s.drafter, s.accepted, s.drafted);
  line += fmt::format("; draft {:.0f} ms, verify {:.0f} ms, rollback {:.1f} ms", 1e3 * f.draft_seconds,
                      1e3 * f.verify_seconds, 1e3 * f.rollback_seconds);
  return f.message.empty() ? line : line + "; " + f.message;
}

nlohmann::ordered_json draft_json(const DraftFigures& f) {
  std::size_t places = 0;
  for (std::size_t i = 0; i < f.drafted_at.size(); ++i)
    if (f.drafted_at[i] > 0) places = i + 1;
  nlohmann::ordered_json sources = nlohmann::ordered_json::object();
  for (const DraftFigures::Source& s : f.sources)
    sources[s.drafter] = {{"drafted", s.drafted}, {"accepted", s.accepted}};
  nlohmann::ordered_json json{{"drafted", f.drafted},
                              {"accepted", f.accepted},
                              {"drafted_at", std::span(f.drafted_at).first(places)},
                              {"accepted_at", std::span(f.accepted_at).first(places)},
                              {"steps", f.steps},
                              {"tokens", f.tokens},
                              {"tokens_per_step", f.tokens_per_step()},
                              {"drafters", sources},
                              {"draft_seconds", f.draft_seconds},
                              {"verify_seconds", f.verify_seconds},
                              {"rollback_seconds", f.rollback_seconds}};
  if (!f.message.empty()) json["message"] = f.message;
  return json;
}

}  // namespace kvasir::run
