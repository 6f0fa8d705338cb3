// Which block of a cycle is read next and where to, while the computation goes through the cycle. No threads and no
// clock: whoever reads and whoever computes call it, one at a time (weights/stream.hpp).
//
// Blocks are read in the order of the cycle, each to the next place in a ring of bytes, and behind the cycle's last one
// comes its first. Their places are given back in the same order. A place that is read or written is never given away.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kvasir::weights {

class Ring {
 public:
  // A block is held while it is used; at most two that follow each other are. REQUIRES: room >= least_room(bytes).
  Ring(std::vector<std::int64_t> bytes, std::int64_t room);
  static std::int64_t least_room(const std::vector<std::int64_t>& bytes);

  struct Read {
    std::uint64_t id = 0;
    int block = 0;
    std::int64_t at = 0;  // in the ring
  };
  // What is to be read next; nothing while its place is in use.
  std::optional<Read> next();
  // Nothing is written to the place of this read any more, and all of it is there if `whole`. Otherwise, and if nobody
  // wants it any more, the place is given back.
  void arrived(std::uint64_t id, bool whole);
  // Whether the read is still of use.
  bool wanted(std::uint64_t id) const;

  // The computation goes on with `block`: what was read for it before is of no use any more. False: the block is not
  // under way, because the computation did not follow the cycle. Then reading goes on with it.
  bool want(int block);
  bool ready(int block) const;
  // The block's place. REQUIRES: ready(block).
  std::int64_t hold(int block);
  void release(int block);  // REQUIRES: held
  // Nothing that is not held is wanted; reading goes on with `block`.
  void restart(int block);

 private:
  enum class State { kReading, kReady, kHeld, kUnwanted, kFree };  // kUnwanted: still written to
  struct Entry {
    std::uint64_t id;
    int block;
    std::int64_t at, end;
    State state;
  };
  std::optional<std::int64_t> place_for(std::int64_t bytes) const;
  Entry* find(int block);
  const Entry* find(int block) const;
  void drop(Entry& e);
  void pop();

  std::vector<std::int64_t> bytes_;
  std::int64_t room_;
  std::deque<Entry> entries_;  // in the order of their places
  int next_ = 0;
  std::uint64_t ids_ = 0;
};

}  // namespace kvasir::weights
