// Which tokens occurred lately and how often, for the penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::run {

class History {
 public:
  struct Seen {
    std::int32_t id;
    std::int32_t count;  // >= 1, within the window
  };

  // Remembers the last `window` tokens; -1: all; 0: none. All memory is taken here: O(vocab + window), none for window
  // 0.
  History(std::int32_t vocab, std::int32_t window);

  // REQUIRES: 0 <= id < vocab.
  void add(std::int32_t id);

  // The distinct tokens of the window, in no particular order; valid until the next add.
  std::span<const Seen> seen() const { return seen_; }

 private:
  void forget(std::int32_t id);

  std::int32_t window_;
  std::vector<std::int32_t> place_;  // (vocab): index in seen_, or -1
  std::vector<Seen> seen_;
  std::vector<std::int32_t> ring_;  // the window's tokens once it is full, oldest at next_
  std::size_t next_ = 0;
};

}  // namespace kvasir::run
