// Texts at other places in tiers that cannot be scanned, such as a shared Redis: the tier has an index of its own.
//
//   anchor   tail record   ids: the first kLeastPiece tokens of a piece   payload: key of a text
//   text     tail record   ids: all tokens of a text, whole pages             payload: none; its chunks follow from ids
//
// Both hang below roots that no prompt leads to, one per tenant, so nobody can name those of another one. A prompt asks
// for the anchors at the places where its content alone is cut: of a passage these are the same wherever it stands. The
// index says where to look. What is found is a text like any other, and its chunks are compared when they are read.
#include <algorithm>
#include <set>

#include "kv/page.hpp"
#include "store/passages.hpp"
#include "store/tail.hpp"

namespace kvasir::store {
namespace {

using kv::kPageTokens;

constexpr std::size_t kMostAsked = 4096;  // anchors of one prompt
constexpr std::size_t kMostTexts = 64;    // that one prompt learns

// Names of tenants have no zero byte in front.
Key index_root(const Fingerprint& fingerprint, const char* what, const std::string& tenant) {
  return root_key(fingerprint, std::string(1, '\0') + what + tenant);
}

std::span<const std::int32_t> beginning(std::span<const std::int32_t> ids, std::int64_t at) {
  return ids.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(kLeastPiece));
}

bool is(const Found& f, const Key& root) {
  return f && f.record.head.kind == Kind::kTail && f.record.head.parent == root;
}

}  // namespace

void Passages::index_pieces(const std::string& tenant, std::span<const std::int32_t> ids,
                            std::span<const std::int64_t> begins) {
  if (std::none_of(tiers_.begin(), tiers_.end(), [](const auto& t) { return has_index(*t); })) return;
  const Key texts = index_root(fingerprint_, "text ", tenant), anchors = index_root(fingerprint_, "anchor ", tenant);
  const auto put = [&](const Key& root, std::span<const std::int32_t> of, std::span<const std::byte> payload) {
    const Key key = key_of_tail(root, of);
    const SharedBytes record =
        make_record({.kind = Kind::kTail, .fingerprint = fingerprint_, .parent = root, .cost = 0}, of, {&payload, 1});
    for (const auto& tier : tiers_)
      if (has_index(*tier)) tier->put(key, record);
    return key;
  };
  const Key text = put(texts, ids, {});
  for (const std::int64_t at : begins) put(anchors, beginning(ids, at), text.bytes);
}

void Passages::learn_indexed(const std::string& tenant, std::span<const std::int32_t> ids, Deadline deadline) {
  if (std::none_of(tiers_.begin(), tiers_.end(), [](const auto& t) { return has_index(*t); })) return;
  const Key texts = index_root(fingerprint_, "text ", tenant), anchors = index_root(fingerprint_, "anchor ", tenant);
  std::vector<std::int64_t> places;
  std::vector<Key> keys;
  for (const std::int64_t at : places_to_cut(ids)) {
    if (at + kLeastPiece > static_cast<std::int64_t>(ids.size()) || keys.size() == kMostAsked) break;
    if (content_.knows(tenant, ids.subspan(static_cast<std::size_t>(at)))) continue;
    places.push_back(at);
    keys.push_back(key_of_tail(anchors, beginning(ids, at)));
  }
  if (keys.empty()) return;
  const Ask ask{.fingerprint = fingerprint_, .deadline = deadline};
  for (const auto& tier : tiers_) {
    if (!has_index(*tier)) continue;
    const std::vector<Found> found = tier->get(keys, ask).take(deadline);
    std::set<Key> named;
    for (std::size_t i = 0; i < found.size() && named.size() < kMostTexts; ++i) {
      Key text;
      if (!is(found[i], anchors) || !found[i].record.tokens_are(beginning(ids, places[i])) ||
          found[i].record.payload.size() != text.bytes.size())
        continue;
      std::copy_n(found[i].record.payload.begin(), text.bytes.size(), text.bytes.begin());
      named.insert(text);
    }
    const std::vector<Key> wanted(named.begin(), named.end());
    if (wanted.empty()) continue;
    const std::vector<Found> answers = tier->get(wanted, ask).take(deadline);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!is(answers[i], texts)) continue;
      std::vector<std::int32_t> all(answers[i].record.n_tokens());
      answers[i].record.copy_tokens(all.data());
      if (all.empty() || all.size() % static_cast<std::size_t>(kPageTokens) != 0 ||
          key_of_tail(texts, all) != wanted[i])
        continue;
      Chain chain(fingerprint_, tenant);
      content_.add(tenant, all, chain.extend(all));
    }
  }
}

}  // namespace kvasir::store
