// The check of a device: pages that the processor seals are folded by both, and states are compared as bytes. A device
// whose bits are others is not used, so the processor's arithmetic is the only one that caches know.
#pragma once

#include <string>
#include <vector>

#include "device/fold.hpp"

namespace kvasir::device {

struct Trial {
  int pages = 8;
  int rows = 8;
  int first = 0;  // tokens [first, 128) of the first page and [0, last) of the last are seen
  int last = 128;
  unsigned seed = 1;
  bool start = false;  // merged into a state that is there already
};

// What a trial gives to kernels, and what the processor makes of it.
struct Case {
  struct Held {
    std::vector<float> room;
    kernel::States states{};
    Held(int rows, int dv);
    Held(Held&&) = default;
  };
  std::vector<std::byte> arena;  // slots: keys, values
  std::vector<PlacedPage> pages;
  std::uint32_t v_at = 0;
  std::vector<float> queries;  // in the basis of the keys
  std::vector<float> turns;    // of the values
  Held start;
  Held total;
  double group_seconds = 0;  // that one thread of the processor took for a group of pages, at least
};
Case make_case(const Shape& shape, int turn_floats, const Trial& trial);
// The first number that is not what it should be, as text; empty: there is none.
std::string compare(const kernel::States& expected, const kernel::States& got, int rows, int dv);

// Empty: no number differs. Else the codec, which number, and both values.
std::string check(const Context& context, Folder& folder, const Trial& trial);

// check() of eight pages and of three whose ends are odd. Throws Error(kUnsupported) that says what check said.
void require(const Context& context, Folder& folder);

}  // namespace kvasir::device
