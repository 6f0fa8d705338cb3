#include "run/draft_stats.hpp"

#include <fmt/format.h>

#include <span>

namespace kvasir::run {

DraftTotals& DraftTotals::operator+=(const DraftStats& f) {
  const auto add = [](std::uint64_t& to, std::int64_t more) { to += static_cast<std::uint64_t>(more); };
  add(steps, f.steps), add(tokens, f.tokens), add(drafted, f.drafted), add(accepted, f.accepted);
  draft_seconds += f.draft_seconds;
  verify_seconds += f.verify_seconds;
  rollback_seconds += f.rollback_seconds;
  // accepted_at[i] steps had more than i right draft tokens.
  for (std::size_t right = 0; right <= f.accepted_at.size(); ++right) {
    const std::int64_t least = right == 0 ? f.drafted_at[0] : f.accepted_at[right - 1];
    const std::int64_t here = least - (right < f.accepted_at.size() ? f.accepted_at[right] : 0);
    if (here > 0 && histogram.size() <= right) histogram.resize(right + 1);
    if (here > 0) add(histogram[right], here);
  }
  return *this;
}

std::string draft_line(const DraftStats& f) {
  std::string line = fmt::format("{} of {} draft tokens were accepted, {:.2f} tokens per step", f.accepted, f.drafted,
                                 f.tokens_per_step());
  for (const DraftStats::Source& s : f.sources)
    if (f.sources.size() > 1) line += fmt::format("; {} {} of {}", s.drafter, s.accepted, s.drafted);
  line += fmt::format("; draft {:.0f} ms, verify {:.0f} ms, rollback {:.1f} ms", 1e3 * f.draft_seconds,
                      1e3 * f.verify_seconds, 1e3 * f.rollback_seconds);
  return f.message.empty() ? line : line + "; " + f.message;
}

nlohmann::ordered_json draft_json(const DraftStats& f) {
  std::size_t places = 0;
  for (std::size_t i = 0; i < f.drafted_at.size(); ++i)
    if (f.drafted_at[i] > 0) places = i + 1;
  nlohmann::ordered_json sources = nlohmann::ordered_json::object();
  for (const DraftStats::Source& s : f.sources) sources[s.drafter] = {{"drafted", s.drafted}, {"accepted", s.accepted}};
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
