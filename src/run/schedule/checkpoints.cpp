#include "run/schedule/checkpoints.hpp"

#include <algorithm>
#include <functional>

#include "kv/page.hpp"
#include "store/tail.hpp"

namespace kvasir::run {
namespace {

// A tail is as large as about four sealed pages, so one in the middle of a prompt has to save more than this many
// tokens.
constexpr std::int64_t kLeastSaved = 4 * kv::kPageTokens;
constexpr std::int64_t kTailEvery = 1024;

}  // namespace

std::int64_t page_start(std::int64_t at) { return at / kv::kPageTokens * kv::kPageTokens + store::kTailGrain; }

std::int64_t next_tail(std::int64_t at) {
  constexpr std::int64_t kBefore = kv::kPageTokens - store::kTailGrain;
  return (at + kBefore) / kTailEvery * kTailEvery + kTailEvery - kBefore;
}

std::vector<std::int64_t> message_checkpoints(const ServiceRequest& asked, std::span<const std::int32_t> prompt,
                                              FunctionRef<bool(std::int32_t)> ends_text) {
  const auto n = static_cast<std::int64_t>(prompt.size());
  std::vector<std::int64_t> points = asked.partings;
  // What follows a picture changes more often than the picture.
  for (const model::RowRun& run : asked.request.runs) points.push_back(run.end());
  std::erase_if(points, [](std::int64_t at) { return at < kLeastKept; });
  // The same prompt again takes all but its last token, which must not have a page of its own then.
  if (n % kv::kPageTokens == 1 && n > 1) points.push_back(n - 1);
  if (!asked.checkpoints.empty()) {
    points.insert(points.end(), asked.checkpoints.begin(), asked.checkpoints.end());
    return points;
  }
  const auto ends = [&](std::int64_t i) { return ends_text(prompt[static_cast<std::size_t>(i)]); };
  std::int64_t last = n - 1;
  while (last >= 0 && !ends(last)) --last;
  std::int64_t first = 0;
  while (first < last && !ends(first)) ++first;
  if (last + 1 >= kLeastKept) points.push_back(last + 1);
  if (first < last && first + 1 >= kLeastKept) points.push_back(first + 1);
  return points;
}

std::vector<std::int64_t> waypoints(std::int64_t prompt, std::int64_t have) {
  std::vector<std::int64_t> points;
  for (const std::int64_t distance : {kv::kPageTokens, 4 * kv::kPageTokens})
    if (const std::int64_t at = page_start(prompt - distance); at >= have + kLeastSaved) points.push_back(at);
  for (std::int64_t at = next_tail(have); points.push_back(at), at < prompt;) at = next_tail(at);
  return points;
}

std::vector<std::int64_t> page_waypoints(std::int64_t prompt, std::int64_t sinks) {
  const std::int64_t first = (sinks + store::kTailGrain - 1) / store::kTailGrain * store::kTailGrain + 1;
  std::vector<std::int64_t> points = {std::clamp<std::int64_t>(first, store::kTailGrain + 1, kv::kPageTokens)};
  if (prompt > kv::kPageTokens) points.push_back(page_start(prompt - 1));
  return points;
}

std::vector<std::int64_t> ahead(std::vector<std::int64_t> points, std::int64_t prompt, std::int64_t have,
                                bool tails_behind) {
  const std::int64_t last = tails_behind ? next_tail(std::max(have, prompt - 1)) : 0;
  std::erase_if(points, [&](std::int64_t at) { return at <= have || (at >= prompt && at != last); });
  std::sort(points.begin(), points.end(), std::greater<>());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

}  // namespace kvasir::run
