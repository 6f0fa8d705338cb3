#include "serve/turn_memory.hpp"

#include <algorithm>
#include <utility>

namespace kvasir::serve {

TurnMemory::TurnMemory(std::int64_t budget) : budget_(budget), secret_(store::random_key()) {}

std::int64_t TurnMemory::bytes_of(const Answer& answer) {
  return kAnswerBytes + static_cast<std::int64_t>(answer.ids.size() * sizeof(std::int32_t) + answer.message.size() +
                                                  answer.shown.size());
}

void TurnMemory::remember(std::string_view tenant, const TurnPlace& place, std::vector<std::int32_t> ids,
                          std::size_t plain) {
  if (ids.empty()) return;
  ids.shrink_to_fit();
  plain = std::min(plain, ids.size());
  const auto answer = std::make_shared<const Answer>(Answer{std::move(ids), place.last, plain});
  const std::int64_t size = bytes_of(*answer);
  if (size > budget_) return;
  const std::lock_guard lock(mutex_);
  std::vector<Items::iterator>& here = places_[place.key];
  const auto same = std::find_if(here.begin(), here.end(), [&](auto item) { return item->answer->ids == answer->ids; });
  if (same != here.end()) return items_.splice(items_.begin(), items_, *same);
  items_.push_front({place.key, answer});
  here.push_back(items_.begin());
  bytes_ += size;
  if (here.size() > kMostAtOnePlace) drop(here.front());
  while (bytes_ > budget_) drop(std::prev(items_.end()));
  Ends& ends = ends_[std::string(tenant)];
  const auto known = ends.list.begin() + static_cast<std::ptrdiff_t>(std::min(ends.count, kEnds));
  if (std::find(ends.list.begin(), known, place.end) == known) ends.list[ends.count++ % kEnds] = place.end;
}

void TurnMemory::change(Items::iterator item, Answer answer) {
  bytes_ -= bytes_of(*item->answer);
  item->answer = std::make_shared<const Answer>(std::move(answer));
  bytes_ += bytes_of(*item->answer);
  items_.splice(items_.begin(), items_, item);
  while (bytes_ > budget_) drop(std::prev(items_.end()));
}

void TurnMemory::describe(const store::Key& key, std::span<const std::int32_t> ids, std::string message,
                          std::size_t index) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  for (const auto item : place->second) {
    const Answer& known = *item->answer;
    if (known.ids.size() != ids.size() || !std::equal(ids.begin(), ids.end(), known.ids.begin())) continue;
    if (known.message == message && known.index == index) return;
    Answer answer = known;
    answer.message = std::move(message);
    answer.index = index;
    answer.shown.clear();
    return change(item, std::move(answer));
  }
}

void TurnMemory::show(const store::Key& key, const AnswerPtr& answer, std::string shown) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  for (const auto item : place->second) {
    if (item->answer != answer) continue;
    Answer more = *answer;
    more.shown = std::move(shown);
    return change(item, std::move(more));
  }
}

void TurnMemory::drop(Items::iterator item) {
  bytes_ -= bytes_of(*item->answer);
  const auto place = places_.find(item->key);
  std::erase(place->second, item);
  if (place->second.empty()) places_.erase(place);
  items_.erase(item);
}

std::vector<std::uint64_t> TurnMemory::ends(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  const auto it = ends_.find(std::string(tenant));
  if (it == ends_.end()) return {};
  const auto& list = it->second.list;
  return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(it->second.count, kEnds))};
}

std::vector<TurnMemory::AnswerPtr> TurnMemory::find(const store::Key& key) const {
  std::vector<AnswerPtr> found;
  const std::lock_guard lock(mutex_);
  if (const auto place = places_.find(key); place != places_.end())
    for (const auto item : place->second) found.push_back(item->answer);
  return found;
}

void TurnMemory::use(const store::Key& key, const AnswerPtr& answer) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  for (const auto item : place->second)
    if (item->answer == answer) items_.splice(items_.begin(), items_, item);
}

std::int64_t TurnMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::int64_t TurnMemory::answers() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(items_.size());
}

}  // namespace kvasir::serve
