// What encoders share during one call of Tokenizer::encode. It remembers which ids a piece of the text became: most
// words of a long text are repeats.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/merge.hpp"
#include "text/tables.hpp"

namespace kvasir::text {

class WordCache {
 public:
  // For a text of `text_size` bytes, whose pieces stay valid while the cache lives, and ids appended to `out`, of which
  // nothing is removed meanwhile.
  WordCache(std::size_t text_size, std::vector<std::int32_t>& out)
      : out_(out), slots_(std::bit_ceil(std::clamp<std::size_t>(text_size / 16, 16, 1 << 16))) {}

  // Appends the ids of `word`: copies them when they are known, calls `encode()` to append them otherwise.
  // Direct-mapped: a word evicts whatever shared its slot, so size and time stay bounded.
  template <class Encode>
  void append(std::string_view word, Encode encode) {
    if (word.size() > kLongest) return encode();
    Slot& slot = slots_[static_cast<std::size_t>(hash_bytes(word)) & (slots_.size() - 1)];
    if (slot.word == word) {
      for (std::size_t i = 0; i < slot.count; ++i) out_.push_back(out_[slot.begin + i]);
      return;
    }
    const std::size_t begin = out_.size();
    encode();
    slot = {word, begin, out_.size() - begin};
  }

 private:
  static constexpr std::size_t kLongest = 64;
  struct Slot {
    std::string_view word;  // empty: free; words are not empty
    std::size_t begin = 0, count = 0;
  };

  std::vector<std::int32_t>& out_;
  std::vector<Slot> slots_;
};

struct EncodeScratch {
  // For texts of `text_size` bytes together, whose ids are appended to `out`.
  EncodeScratch(std::size_t text_size, std::vector<std::int32_t>& out) : cache(text_size, out) {}

  // Texts that encoders make of what they are given live as long as the cache refers to them.
  std::string_view keep(std::string text) { return kept.emplace_back(std::move(text)); }

  bool first = true;  // what is encoded next stands at the very beginning of a text
  WordCache cache;
  Merger merger;
  std::deque<std::string> kept;
};

}  // namespace kvasir::text
