// What drafts did for one request.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::run {

struct DraftStats {
  static constexpr int kPlaces = 16;
  std::int64_t steps = 0;     // that gave tokens of the answer behind its first one ...
  std::int64_t tokens = 0;    // ... and how many: tokens / steps are tokens per sweep over the weights
  std::int64_t drafted = 0;   // draft tokens that were computed
  std::int64_t accepted = 0;  // of them right, and used
  std::array<std::int64_t, kPlaces> drafted_at{}, accepted_at{};  // by place behind the answer's token
  struct Source {
    std::string drafter;
    std::int64_t drafted = 0, accepted = 0;
  };
  std::vector<Source> sources;
  std::string message;  // of a drafter; usually empty
  // Seconds of the steps' parts, shared with the requests beside: asking drafters, computing steps that have draft
  // tokens, cutting back.
  double draft_seconds = 0, verify_seconds = 0, rollback_seconds = 0;

  double tokens_per_step() const { return steps > 0 ? static_cast<double>(tokens) / static_cast<double>(steps) : 0; }
};

// Of all requests that ended.
struct DraftTotals {
  std::uint64_t steps = 0, tokens = 0, drafted = 0, accepted = 0;  // as DraftStats has them
  std::vector<std::uint64_t> histogram;                            // steps with draft tokens, by how many were right
  double draft_seconds = 0, verify_seconds = 0, rollback_seconds = 0;
  DraftTotals& operator+=(const DraftStats& more);
};

// "61 of 80 draft tokens were accepted, 2.10 tokens per step; draft 3 ms, verify 410 ms, rollback 0 ms".
std::string draft_line(const DraftStats& stats);
// Lists by place end with the last place that was drafted.
nlohmann::ordered_json draft_json(const DraftStats& stats);

}  // namespace kvasir::run
