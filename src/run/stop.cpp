#include "run/stop.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/error.hpp"

namespace kvasir::run {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty())
      throw Error(Code::kBadInput,
                  "stop string " + std::to_string(i + 1) + " of " + std::to_string(stops.size()) +
                      " is empty, expected at least one character",
                  "stop");
    Pattern p{std::move(stops[i]), {}, 0};
    p.border.assign(p.text.size(), 0);
    for (std::size_t j = 1; j < p.text.size(); ++j) {
      std::uint32_t k = p.border[j - 1];
      while (k > 0 && p.text[j] != p.text[k]) k = p.border[k - 1];
      p.border[j] = k + (p.text[j] == p.text[k]);
    }
    patterns_.push_back(std::move(p));
  }
}

// REQUIRES: not complete yet (matching ends with the first complete one).
void StopMatcher::advance(Pattern& p, char byte) {
  while (p.matched > 0 && p.text[p.matched] != byte) p.matched = p.border[p.matched - 1];
  p.matched += p.text[p.matched] == byte;
}

StopMatcher::Step StopMatcher::feed(std::string_view piece) {
  KVASIR_CHECK(!stopped_);
  pending_.erase(0, released_);
  const std::size_t before = pending_.size();
  pending_ += piece;
  for (std::size_t i = before; i < pending_.size(); ++i) {
    int hit = -1;
    for (std::size_t s = 0; s < patterns_.size(); ++s) {
      Pattern& p = patterns_[s];
      advance(p, pending_[i]);
      if (p.matched < p.text.size()) continue;
      if (hit < 0 || p.text.size() > patterns_[static_cast<std::size_t>(hit)].text.size()) hit = static_cast<int>(s);
    }
    if (hit < 0) continue;
    stopped_ = true;
    released_ = i + 1 - patterns_[static_cast<std::size_t>(hit)].text.size();
    pending_.resize(released_);
    return {pending_, true, hit};
  }
  std::size_t held = 0;
  for (const Pattern& p : patterns_) held = std::max<std::size_t>(held, p.matched);
  released_ = pending_.size() - held;
  return {std::string_view(pending_).substr(0, released_), false, -1};
}

std::string_view StopMatcher::finish() {
  pending_.erase(0, released_);
  released_ = pending_.size();
  for (Pattern& p : patterns_) p.matched = 0;
  return pending_;
}

}  // namespace kvasir::run
