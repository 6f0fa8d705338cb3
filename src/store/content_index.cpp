#include "store/content_index.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "kv/page.hpp"

namespace kvasir::store {
namespace {

constexpr std::int64_t kCutWindow = 16;  // tokens that decide on a cut
constexpr std::uint64_t kCutMask = 63;   // one of 64 places is one
constexpr std::size_t kMostAnchors = 8;  // texts that are tried for one hash

// Texts of different tenants never meet.
std::uint64_t salted(std::uint64_t hash, std::string_view tenant) {
  return hash ^ (std::hash<std::string_view>{}(tenant)*0x94d049bb133111ebull);
}

}  // namespace

RollingHash::RollingHash(std::int64_t window) {
  for (std::int64_t i = 1; i < window; ++i) top_ *= kBase;
}

std::vector<std::int64_t> places_to_cut(std::span<const std::int32_t> ids) {
  std::vector<std::int64_t> places;
  RollingHash hash(kCutWindow);
  const auto n = static_cast<std::int64_t>(ids.size());
  for (std::int64_t t = 0; t < n; ++t) {
    if (t >= kCutWindow && (hash.value() & kCutMask) == 0) places.push_back(t);
    if (t < kCutWindow)
      hash.add(ids[static_cast<std::size_t>(t)]);
    else
      hash.roll(ids[static_cast<std::size_t>(t - kCutWindow)], ids[static_cast<std::size_t>(t)]);
  }
  return places;
}

std::vector<std::int64_t> cut_pieces(std::span<const std::int32_t> ids, std::span<const std::int64_t> borders) {
  const auto n = static_cast<std::int64_t>(ids.size());
  const std::vector<std::int64_t> places = places_to_cut(ids);
  std::vector<std::int64_t> cuts{0};
  std::size_t border = 0, place = 0;
  for (std::int64_t t = 0; t < n; ++t) {
    while (border < borders.size() && borders[border] < t) ++border;
    while (place < places.size() && places[place] < t) ++place;
    const std::int64_t length = t - cuts.back();
    const bool at_border = border < borders.size() && borders[border] == t;
    const bool at_place = place < places.size() && places[place] == t;
    if ((at_border && length > 0) || length == kMostPiece || (at_place && length >= kLeastPiece)) cuts.push_back(t);
  }
  if (n > 0) cuts.push_back(n);
  return cuts;
}

void ContentIndex::drop(std::deque<std::shared_ptr<Text>>::iterator at) {
  tokens_ -= (*at)->ids.size();
  (*at)->known = false;
  texts_.erase(at);
}

void ContentIndex::make_room(std::size_t tokens) {
  while (!texts_.empty() && tokens_ + tokens > most_tokens_) {
    const auto oldest =
        std::min_element(texts_.begin(), texts_.end(), [](const auto& a, const auto& b) { return a->used < b->used; });
    drop(oldest);
  }
  // Anchors of texts that are gone go when they outnumber the others.
  if (anchors_.size() < 2 * (tokens_ / kLeastPiece) + 1024) return;
  for (auto it = anchors_.begin(); it != anchors_.end();) {
    std::erase_if(it->second, [](const Anchor& a) { return a.text.expired(); });
    it = it->second.empty() ? anchors_.erase(it) : std::next(it);
  }
}

std::vector<std::int64_t> ContentIndex::add(std::string_view tenant, std::span<const std::int32_t> ids,
                                            std::span<const Key> keys, std::span<const std::int64_t> borders) {
  const std::size_t pages = std::min(ids.size() / kv::kPageTokens, keys.size());
  if (pages == 0) return {};
  ids = ids.first(pages * kv::kPageTokens);
  keys = keys.first(pages);
  const std::lock_guard lock(mutex_);
  if (ids.size() > most_tokens_) return {};
  for (const auto& text : texts_) {
    if (text->tenant != tenant) continue;
    if (text->keys.size() >= pages && text->keys[pages - 1] == keys[pages - 1]) {
      text->used = ++clock_;
      return {};
    }
  }
  std::int64_t old = 0;  // tokens whose pieces were known
  // A text that this one goes on from is a part of it now.
  for (auto it = texts_.begin(); it != texts_.end(); ++it) {
    const Text& text = **it;
    if (text.tenant != tenant || text.keys.size() > pages || text.keys.back() != keys[text.keys.size() - 1]) continue;
    old = static_cast<std::int64_t>(text.ids.size());
    drop(it);
    break;
  }
  make_room(ids.size());
  const auto row = std::find_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; });
  auto text = std::make_shared<Text>(Text{.tenant = std::string(tenant),
                                          .ids = {ids.begin(), ids.end()},
                                          .keys = {keys.begin(), keys.end()},
                                          .tokens = row - ids.begin(),
                                          .used = ++clock_});
  texts_.push_back(text);
  tokens_ += ids.size();
  const std::vector<std::int64_t> cuts = cut_pieces(ids, borders);
  std::vector<std::int64_t> fresh;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] + kLeastPiece > static_cast<std::int64_t>(ids.size())) break;
    RollingHash hash(kLeastPiece);
    for (std::int64_t t = cuts[i]; t < cuts[i] + kLeastPiece; ++t) hash.add(ids[static_cast<std::size_t>(t)]);
    std::vector<Anchor>& at = anchors_[salted(hash.value(), tenant)];
    std::erase_if(at, [](const Anchor& a) { return a.text.expired(); });
    if (at.size() >= kMostAnchors) at.erase(at.begin());  // the oldest
    at.push_back({text, cuts[i]});
    if (cuts[i] + kLeastPiece > old) fresh.push_back(cuts[i]);
  }
  return fresh;
}

bool ContentIndex::knows(std::string_view tenant, std::span<const std::int32_t> ids) const {
  RollingHash hash(kLeastPiece);
  for (const std::int32_t id : ids.first(kLeastPiece)) hash.add(id);
  const std::lock_guard lock(mutex_);
  const auto found = anchors_.find(salted(hash.value(), tenant));
  if (found == anchors_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [](const Anchor& a) {
    const auto text = a.text.lock();
    return text && text->known;
  });
}

std::vector<ContentIndex::Match> ContentIndex::find(std::string_view tenant, std::span<const std::int32_t> ids,
                                                    const Scope& scope) {
  const auto [from, to, skip, behind_rows] = scope;
  std::vector<Match> matches;
  const std::lock_guard lock(mutex_);
  if (anchors_.empty() || to - from < kLeastPiece) return matches;
  const auto id = [&](std::int64_t t) { return ids[static_cast<std::size_t>(t)]; };
  RollingHash hash(kLeastPiece);
  for (std::int64_t t = from; t < from + kLeastPiece; ++t) hash.add(id(t));
  std::int64_t free = from;  // the first token that is in no match
  for (std::int64_t t = from;; ++t) {
    const auto found = t >= free ? anchors_.find(salted(hash.value(), tenant)) : anchors_.end();
    Match best;
    if (found != anchors_.end()) {
      for (auto a = found->second.rbegin(); a != found->second.rend(); ++a) {  // the newest first
        const std::shared_ptr<Text> text = a->text.lock();
        if (!text || !text->known || text->tenant != tenant) continue;
        const std::int64_t n = behind_rows ? std::ssize(text->ids) : text->tokens;
        const auto same = [&](std::int64_t i, std::int64_t j) {
          return id(i) == text->ids[static_cast<std::size_t>(j)];
        };
        std::int64_t begin = t, made_at = a->at;
        while (begin > free && made_at > skip && same(begin - 1, made_at - 1)) --begin, --made_at;
        if (made_at < skip) begin += skip - made_at, made_at = skip;
        std::int64_t end = begin;
        while (end < to && made_at + end - begin < n && same(end, made_at + end - begin)) ++end;
        // From a place in front of `t` it need not reach t: then the ids differ there, and the hashes were equal only.
        if (end - begin < kLeastPiece || end <= t) continue;
        if (end - begin > best.end - best.begin) best = {begin, end, made_at, text};
      }
    }
    if (best.text) {
      std::const_pointer_cast<Text>(best.text)->used = ++clock_;
      free = best.end;
      matches.push_back(std::move(best));
    }
    if (t + kLeastPiece >= to) break;
    hash.roll(id(t), id(t + kLeastPiece));
  }
  return matches;
}

void ContentIndex::forget(const std::shared_ptr<const Text>& text) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find(texts_.begin(), texts_.end(), text);
  if (at == texts_.end()) return;
  drop(at);
}

std::size_t ContentIndex::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

}  // namespace kvasir::store
