// Pages that were made elsewhere, as a sequence reads them (architecture, section 2).
//
//   text    0 ........ e | borrowed run | computed | borrowed run | computed ........ n
//   own     0 ........ e | rows that are computed or repaired, in the order of their positions | what follows
//
// The sequence's own tokens lie behind each other in its pages, however far apart they stand in the text: sinks, raw
// pages, sealing and the page table know their numbers alone. Their order is that of the text, so what a token sees of
// its sequence's own pages follows from these numbers, too. Only RoPE and what is seen of borrowed pages need
// positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/options.hpp"
#include "kv/rotation.hpp"

namespace kvasir::kv {

// Where the own tokens stand in the text: token i < first at i, token first + j at at[j], the others behind the last of
// these.
struct Places {
  std::int64_t first = 0;
  std::span<const std::int64_t> at;  // ascending, at least one

  std::int64_t end() const { return first + static_cast<std::int64_t>(at.size()); }
  std::int64_t of(std::int64_t i) const {
    if (i < first) return i;
    return i < end() ? at[static_cast<std::size_t>(i - first)] : at.back() + 1 + (i - end());
  }
  // The first own token that stands at `position` or behind it.
  std::int64_t first_from(std::int64_t position) const {
    if (position <= first) return position;
    if (position > at.back()) return end() + (position - at.back() - 1);
    return first + (std::lower_bound(at.begin(), at.end(), position) - at.begin());
  }
};

// Rows [begin, end) of one page of the pool.
struct BorrowedPage {
  std::int32_t slot;
  int begin;
  int end;
  std::int64_t position;         // where its token 0 would stand in the text; may be negative
  int shift;                     // into Borrowed::shifts
  std::uint64_t hidden[2] = {};  // rows that fresh ones stand for
  bool hides = false;
};

class Borrowed {
 public:
  // `fresh`: positions, ascending, of the tokens that the sequence computes itself, up to the end of the text; those in
  // runs are hidden there. REQUIRES: runs ascend and do not overlap, and every token from `own` on is in a run or
  // fresh.
  Borrowed(std::int64_t own, std::span<const BorrowedRun> runs, std::span<const std::int64_t> fresh);
  Borrowed(const Borrowed& other) : Borrowed(other, 0) {}
  Borrowed& operator=(const Borrowed&) = delete;

  const Places& places() const { return places_; }
  std::span<const BorrowedPage> pages() const { return pages_; }
  std::int64_t shift(const BorrowedPage& page) const { return shifts_[static_cast<std::size_t>(page.shift)]; }
  std::int64_t groups() const;  // of kGroupPages pages

  // Makes the angles of all shifts for a layer; allocates when a layer is met whose angles are others.
  void make_angles(const Rotation& rotation);
  // (2, pairs): cosines, then sines, of what rotates queries back by a page's shift. REQUIRES: make_angles(rotation).
  const float* angles(const Rotation& rotation, const BorrowedPage& page) const;

 private:
  Borrowed(const Borrowed& other, int);

  struct Angles {
    Rotation rotation;
    std::vector<float> values;  // (shifts, 2, pairs)
  };
  const Angles* find(const Rotation& rotation) const;

  std::vector<std::int64_t> at_;
  Places places_;
  std::vector<BorrowedPage> pages_;
  std::vector<std::int64_t> shifts_;
  std::vector<Angles> angles_;
};

}  // namespace kvasir::kv
