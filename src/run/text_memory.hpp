// Texts of earlier requests, to find what followed some tokens there. One tenant's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace kvasir::run {

class TextMemory {
 public:
  static constexpr std::int64_t kGram = 4;  // tokens that have to be equal at least
  static constexpr int kMostPlaces = 16;    // places that are compared
  static constexpr std::int64_t kMostEqual = 64;
  static constexpr std::int32_t kEnd = -1;  // behind a text

  // Keeps at most about so many tokens, the newest.
  explicit TextMemory(std::size_t tokens) : half_(tokens / 2) {}

  // Adds a text, but for a beginning that an earlier text has, too.
  void add(std::span<const std::int32_t> ids);

  struct Found {
    std::int64_t equal = 0;                  // tokens before; 0: nothing was found
    std::span<const std::int32_t> followed;  // valid until the next add
  };
  // What followed the end of `ids` where the most tokens before were equal, at the latest of such places.
  Found find(std::span<const std::int32_t> ids) const;

  // The newest texts of at most so many tokens, kEnd behind each, for notes; and back: adds them. False: `vocab` has
  // not all of the ids, or no text ends there; nothing is added then.
  std::vector<std::int32_t> newest(std::size_t tokens) const;
  bool add_all(std::span<const std::int32_t> texts, std::int64_t vocab);

  std::size_t added() const { return added_; }  // tokens, ever
  std::size_t tokens() const { return young_.tokens.size() + old_.tokens.size(); }

 private:
  struct Half {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> before;  // by place: the last one before it where the same kGram tokens end; -1: none
    std::unordered_map<std::uint64_t, std::int32_t> last;
    std::unordered_set<std::uint64_t> beginnings;  // hashes of what texts begin with, every kGrain tokens
  };
  static constexpr std::size_t kGrain = 64;
  static void look(const Half& half, std::span<const std::int32_t> ids, Found* best);

  std::size_t half_, added_ = 0;
  Half young_, old_;  // when the young half is full, it becomes the old one
};

}  // namespace kvasir::run
