#include "store/recent_prompts.hpp"

#include <algorithm>

namespace kvasir::store {

void RecentPrompts::add(std::string_view tenant, std::span<const std::int32_t> ids) {
  const std::lock_guard lock(mutex_);
  prompts_.push_back({std::string(tenant), {ids.begin(), ids.end()}});
  tokens_ += ids.size();
  while (prompts_.size() > kMost || (tokens_ > kMostTokens && prompts_.size() > 1)) {
    tokens_ -= prompts_.front().ids.size();
    prompts_.pop_front();
  }
}

RecentPrompts::Nearest RecentPrompts::nearest(std::string_view tenant, std::span<const std::int32_t> ids) const {
  const std::lock_guard lock(mutex_);
  Nearest best;
  for (const Prompt& p : prompts_) {
    if (p.tenant != tenant) continue;
    const auto differ = std::mismatch(p.ids.begin(), p.ids.end(), ids.begin(), ids.end());
    const std::int64_t common = differ.first - p.ids.begin();
    if (common > best.tokens) best = {common, differ.first == p.ids.end()};
  }
  return best;
}

}  // namespace kvasir::store
