// Texts of numbers within bounds, and of multiples.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/schema/automaton.hpp"
#include "text/schema/decimal.hpp"

namespace kvasir::text {

struct NumberBound {
  Decimal value;
  bool open = false;  // the bound itself is out
};

struct NumberRules {
  bool whole = false;  // integers alone, which are written without a point
  std::optional<NumberBound> low, high;
  std::vector<Decimal> multiples;  // of each of them; not zero

  bool any() const { return low || high || !multiples.empty(); }
};

// Without exponents and without -0; at most 18 digits before the point, or as many as the bound next to zero has, and
// at most 16 behind it. Throws Error(kUnsupported) for multiples that need too many states. Adds to
// `steps` what it costs, also when it throws.
Automaton automaton_of_numbers(const NumberRules& rules, std::uint64_t* steps = nullptr);

}  // namespace kvasir::text
