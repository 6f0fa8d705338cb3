#include "run/history.hpp"

#include <algorithm>
#include <limits>

namespace kvasir::run {

History::History(std::int32_t vocab, std::int32_t window) : window_(window) {
  if (window == 0) return;
  place_.assign(static_cast<std::size_t>(vocab), -1);
  seen_.reserve(static_cast<std::size_t>(window < 0 ? vocab : std::min(vocab, window)) + 1);
  if (window > 0) ring_.reserve(static_cast<std::size_t>(window));
}

void History::add(std::int32_t id) {
  if (window_ == 0) return;
  if (window_ > 0) {
    if (ring_.size() < static_cast<std::size_t>(window_)) {
      ring_.push_back(id);
    } else {
      forget(ring_[next_]);
      ring_[next_] = id;
      next_ = (next_ + 1) % ring_.size();
    }
  }
  std::int32_t& place = place_[static_cast<std::size_t>(id)];
  if (place < 0) {
    place = static_cast<std::int32_t>(seen_.size());
    seen_.push_back({id, 0});
  }
  std::int32_t& count = seen_[static_cast<std::size_t>(place)].count;
  if (count < std::numeric_limits<std::int32_t>::max()) ++count;
}

void History::forget(std::int32_t id) {
  std::int32_t& place = place_[static_cast<std::size_t>(id)];
  Seen& entry = seen_[static_cast<std::size_t>(place)];
  if (--entry.count > 0) return;
  entry = seen_.back();
  place_[static_cast<std::size_t>(entry.id)] = place;
  seen_.pop_back();
  place = -1;
}

}  // namespace kvasir::run
