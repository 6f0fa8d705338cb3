#include "weights/ring.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace kvasir::weights {

Ring::Ring(std::vector<std::int64_t> bytes, std::int64_t room) : bytes_(std::move(bytes)), room_(room) {
  KVASIR_CHECK(!bytes_.empty() && room_ >= least_room(bytes_));
}

// With a block held in the middle of the ring, the next one has to find its place on one side of it; and so has the
// next one behind two.
std::int64_t Ring::least_room(const std::vector<std::int64_t>& bytes) {
  std::int64_t least = 0;
  const std::size_t n = bytes.size();
  for (std::size_t i = 0; i < n; ++i)
    least = std::max(least, bytes[i] + bytes[(i + 1) % n] + 2 * std::max(bytes[(i + 1) % n], bytes[(i + 2) % n]));
  return least;
}

std::optional<std::int64_t> Ring::place_for(std::int64_t bytes) const {
  if (entries_.empty()) return 0;
  const std::int64_t begin = entries_.front().at, end = entries_.back().end;
  if (begin < end) {  // used: [begin, end), or all of the ring where they have met
    if (end + bytes <= room_) return end;
    return bytes <= begin ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  return end + bytes <= begin ? std::optional(end) : std::nullopt;
}

std::optional<Ring::Read> Ring::next() {
  if (find(next_)) return std::nullopt;  // the whole cycle is here
  const std::int64_t bytes = bytes_[static_cast<std::size_t>(next_)];
  const std::optional<std::int64_t> at = place_for(bytes);
  if (!at) return std::nullopt;
  entries_.push_back({++ids_, next_, *at, *at + bytes, State::kReading});
  next_ = (next_ + 1) % static_cast<int>(bytes_.size());
  return Read{ids_, entries_.back().block, *at};
}

void Ring::arrived(std::uint64_t id, bool whole) {
  for (Entry& e : entries_) {
    if (e.id != id) continue;
    KVASIR_CHECK(e.state == State::kReading || e.state == State::kUnwanted);
    e.state = whole && e.state == State::kReading ? State::kReady : State::kFree;
    break;
  }
  pop();
}

bool Ring::wanted(std::uint64_t id) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.id == id && e.state == State::kReading; });
}

Ring::Entry* Ring::find(int block) { return const_cast<Entry*>(std::as_const(*this).find(block)); }

const Ring::Entry* Ring::find(int block) const {
  for (const Entry& e : entries_)
    if (e.block == block && e.state != State::kUnwanted && e.state != State::kFree) return &e;
  return nullptr;
}

bool Ring::want(int block) {
  if (Entry* const wanted = find(block)) {
    for (Entry& e : entries_) {
      if (&e == wanted) break;
      drop(e);
    }
    pop();
    return true;
  }
  if (next_ == block) {
    // Its place was in use until now, or nothing is read ahead at all: all that is here is behind.
    for (Entry& e : entries_) drop(e);
    pop();
    return true;
  }
  restart(block);
  return false;
}

void Ring::restart(int block) {
  for (Entry& e : entries_) drop(e);
  pop();
  next_ = block;
}

bool Ring::ready(int block) const {
  const Entry* const e = find(block);
  return e && (e->state == State::kReady || e->state == State::kHeld);
}

std::int64_t Ring::hold(int block) {
  Entry* const e = find(block);
  KVASIR_CHECK(e && e->state == State::kReady);
  e->state = State::kHeld;
  return e->at;
}

void Ring::release(int block) {
  Entry* const e = find(block);
  KVASIR_CHECK(e && e->state == State::kHeld);
  e->state = State::kFree;
  pop();
}

void Ring::drop(Entry& e) {
  if (e.state == State::kReading) e.state = State::kUnwanted;
  if (e.state == State::kReady) e.state = State::kFree;
}

// At both ends: behind a block that is held, a restart leaves free entries where the next read has to go.
void Ring::pop() {
  while (!entries_.empty() && entries_.front().state == State::kFree) entries_.pop_front();
  while (!entries_.empty() && entries_.back().state == State::kFree) entries_.pop_back();
}

}  // namespace kvasir::weights
