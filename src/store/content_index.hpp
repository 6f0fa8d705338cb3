// Texts whose pages are stored, found by their content at any place of another text (architecture, section 2: the
// second key). What is found is approximate: its keys and values know the text before it, which is another one here.
//
// A text is cut into pieces of kLeastPiece to kMostPiece tokens: where a hash of the last tokens says so, so that
// the same passage is cut alike wherever it stands, and where the caller knows of a border. A piece is found by a
// rolling hash of its first kLeastPiece tokens, which is computed at every token of a prompt. Ids are compared then,
// and what is equal in front of the piece and behind it belongs to the match. So cuts decide where a match may begin
// to be seen, not where it ends.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/key.hpp"

namespace kvasir::store {

inline constexpr std::int64_t kLeastPiece = 64;
inline constexpr std::int64_t kMostPiece = 256;

// Hash of kLeastPiece tokens that can be rolled on by one: sum over i of (id_i + 1) * B^(n - 1 - i), mod 2^64.
class RollingHash {
 public:
  explicit RollingHash(std::int64_t window);
  void add(std::int32_t id) { value_ = value_ * kBase + term(id); }
  void roll(std::int32_t out, std::int32_t in) { value_ = (value_ - term(out) * top_) * kBase + term(in); }
  // Spread over all bits.
  std::uint64_t value() const { return mix(value_); }

 private:
  static constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15ull;
  static std::uint64_t term(std::int32_t id) { return mix(static_cast<std::uint32_t>(id) + 1ull); }
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 29);
  }
  std::uint64_t value_ = 0;
  std::uint64_t top_ = 1;  // kBase^(window - 1)
};

// Numbers of tokens, ascending, at which pieces begin or end: 0, the cuts, the end. `borders`, ascending, are cuts
// wherever they are; pieces between two of them may be shorter than kLeastPiece, no others may but the last.
std::vector<std::int64_t> cut_pieces(std::span<const std::int32_t> ids, std::span<const std::int64_t> borders = {});

// Tokens at which content alone would cut, wherever the text stands: every content-defined cut of a text that it is a
// part of is among them, but those within the first tokens of `ids`.
std::vector<std::int64_t> places_to_cut(std::span<const std::int32_t> ids);

class ContentIndex {
 public:
  // Most tokens of all texts that are known; the least used of the oldest go first.
  explicit ContentIndex(std::size_t most_tokens = std::size_t{4} << 20) : most_tokens_(most_tokens) {}

  struct Text {
    std::string tenant;
    std::vector<std::int32_t> ids;  // whole pages
    std::vector<Key> keys;          // of these chunks
    std::int64_t tokens = 0;        // in front of the first id that is none: a row of a picture (model/rows.hpp)
    std::uint64_t used = 0;         // when it was last found or added
    bool known = true;              // not forgotten, though a match may still hold it
  };
  // Tokens [begin, end) of a prompt are those of `text` from `made_at` on.
  struct Match {
    std::int64_t begin = 0, end = 0, made_at = 0;
    std::shared_ptr<const Text> text;
  };

  // The chunks of `ids`, whole pages, are stored under `keys`. What a text begins with that is known is not kept twice.
  // Returns where its pieces begin that are new: those of the text that it goes on from are not.
  std::vector<std::int64_t> add(std::string_view tenant, std::span<const std::int32_t> ids, std::span<const Key> keys,
                                std::span<const std::int64_t> borders = {});
  // Where a prompt is looked at, and which parts of texts.
  struct Scope {
    std::int64_t from, to;    // elements of the prompt
    std::int64_t skip = 0;    // the first ones of a text are no part of any match: they have no pages
    bool behind_rows = true;  // false: of texts with rows what stands in front of the first one
  };
  // Matches of at least kLeastPiece elements, ascending, the longest at every place.
  std::vector<Match> find(std::string_view tenant, std::span<const std::int32_t> ids, const Scope& scope);
  // Some text has a piece that begins with the first kLeastPiece of `ids`.
  bool knows(std::string_view tenant, std::span<const std::int32_t> ids) const;
  // Chunks of it are gone: it is not found any more.
  void forget(const std::shared_ptr<const Text>& text);

  std::size_t tokens() const;

 private:
  struct Anchor {
    std::weak_ptr<Text> text;
    std::int64_t at;
  };
  // REQUIRES of both: mutex_ is held.
  void drop(std::deque<std::shared_ptr<Text>>::iterator at);
  void make_room(std::size_t tokens);

  const std::size_t most_tokens_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Text>> texts_;
  std::unordered_map<std::uint64_t, std::vector<Anchor>> anchors_;  // by the hash of a piece's first tokens
  std::size_t tokens_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace kvasir::store
