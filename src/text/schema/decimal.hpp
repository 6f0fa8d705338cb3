// Bounds of numbers as decimal digits, exact however large they are.
#pragma once

#include <string>

#include "base/json.hpp"

namespace kvasir::text {

struct Decimal {
  bool negative = false;
  std::string whole = "0";  // without leading zeros
  std::string fraction;     // without trailing zeros

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// As JSON's text of the number has it. REQUIRES: a number.
Decimal decimal_of(const Json& number);

// -1, 0, 1.
int compare(const Decimal& a, const Decimal& b);

// The whole numbers next to a bound: the least one that is at least (with `open`: more than) `bound`, and the largest
// one that is at most (less than) it.
Decimal ceiling(const Decimal& bound, bool open);
Decimal floor_of(const Decimal& bound, bool open);

}  // namespace kvasir::text
