#include "run/text_memory.hpp"

#include <algorithm>
#include <utility>

namespace kvasir::run {
namespace {

std::uint64_t mix(std::uint64_t h, std::int32_t id) {
  h = (h ^ static_cast<std::uint32_t>(id)) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

std::uint64_t hash_of(std::span<const std::int32_t> ids) {
  std::uint64_t h = 0;
  for (const std::int32_t id : ids) h = mix(h, id);
  return h;
}

}  // namespace

void TextMemory::add(std::span<const std::int32_t> ids) {
  if (static_cast<std::int64_t>(ids.size()) <= kGram) return;
  if (young_.tokens.size() + ids.size() > half_ && !young_.tokens.empty()) old_ = std::exchange(young_, Half{});
  ids = ids.first(std::min(ids.size(), half_));
  std::uint64_t h = 0;
  std::size_t known = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    h = mix(h, ids[i]);
    if ((i + 1) % kGrain != 0) continue;
    if (young_.beginnings.contains(h) || (known == i + 1 - kGrain && old_.beginnings.contains(h))) {
      known = i + 1;
    } else {
      young_.beginnings.insert(h);
    }
  }
  const std::span<const std::int32_t> fresh = ids.subspan(known > static_cast<std::size_t>(kGram) ? known - kGram : 0);
  Half& p = young_;
  const std::size_t first = p.tokens.size();
  for (const std::int32_t id : fresh) {
    p.tokens.push_back(id);
    p.before.push_back(-1);
    if (static_cast<std::int64_t>(p.tokens.size() - first) < kGram) continue;
    const auto place = static_cast<std::int32_t>(p.tokens.size() - 1);
    const auto [at, is_new] =
        p.last.try_emplace(hash_of(std::span(p.tokens).last(static_cast<std::size_t>(kGram))), place);
    if (!is_new) p.before.back() = std::exchange(at->second, place);
  }
  added_ += fresh.size();
  p.tokens.push_back(kEnd);
  p.before.push_back(-1);
}

std::vector<std::int32_t> TextMemory::newest(std::size_t tokens) const {
  std::vector<std::int32_t> out;
  const std::size_t young = std::min(tokens, young_.tokens.size()), old = std::min(tokens - young, old_.tokens.size());
  out.insert(out.end(), old_.tokens.end() - static_cast<std::ptrdiff_t>(old), old_.tokens.end());
  out.insert(out.end(), young_.tokens.end() - static_cast<std::ptrdiff_t>(young), young_.tokens.end());
  const Half& cut = young < young_.tokens.size() ? young_ : old_;
  const std::size_t left = cut.tokens.size() - (&cut == &young_ ? young : old);
  if (left == 0 || cut.tokens[left - 1] == kEnd) return out;
  const auto end = std::find(out.begin(), out.end(), kEnd);  // of the first text, which is cut
  out.erase(out.begin(), end == out.end() ? end : end + 1);
  return out;
}

bool TextMemory::add_all(std::span<const std::int32_t> texts, std::int64_t vocab) {
  if (!texts.empty() && texts.back() != kEnd) return false;
  if (std::any_of(texts.begin(), texts.end(), [&](std::int32_t id) { return id < kEnd || id >= vocab; })) return false;
  for (auto at = texts.begin(); at != texts.end();) {
    const auto end = std::find(at, texts.end(), kEnd);
    add({at, end});
    at = end + 1;
  }
  return true;
}

void TextMemory::look(const Half& half, std::span<const std::int32_t> ids, Found* best) {
  const auto found = half.last.find(hash_of(ids.last(static_cast<std::size_t>(kGram))));
  if (found == half.last.end()) return;
  int places = 0;
  for (std::int32_t at = found->second; at >= 0 && places < kMostPlaces;
       at = half.before[static_cast<std::size_t>(at)]) {
    ++places;
    const auto most = std::min<std::int64_t>({kMostEqual, at + 1, static_cast<std::int64_t>(ids.size())});
    std::int64_t equal = 0;
    while (equal < most &&
           half.tokens[static_cast<std::size_t>(at - equal)] == ids[ids.size() - 1 - static_cast<std::size_t>(equal)])
      ++equal;
    const std::span<const std::int32_t> behind = std::span(half.tokens).subspan(static_cast<std::size_t>(at) + 1);
    if (equal < kGram || equal <= best->equal || behind.empty() || behind[0] == kEnd) continue;
    *best = {equal, behind};
  }
}

TextMemory::Found TextMemory::find(std::span<const std::int32_t> ids) const {
  Found best;
  if (static_cast<std::int64_t>(ids.size()) < kGram) return best;
  look(young_, ids, &best);
  look(old_, ids, &best);
  if (best.equal == 0) return best;
  const auto end = std::find(best.followed.begin(), best.followed.end(), kEnd);
  best.followed = best.followed.first(static_cast<std::size_t>(end - best.followed.begin()));
  return best;
}

}  // namespace kvasir::run
