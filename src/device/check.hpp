// The check of a device: pages that the processor seals are folded by both, and states are compared as bytes. A device
// whose bits are others is not used, so the processor's arithmetic is the only one that caches know.
#pragma once

#include <string>

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

// Empty: no number differs. Else the codec, which number, and both values.
std::string check(const Context& context, Folder& folder, const Trial& trial);

// check() of eight pages and of three whose ends are odd. Throws Error(kUnsupported) that says what check said.
void require(const Context& context, Folder& folder);

}  // namespace kvasir::device
