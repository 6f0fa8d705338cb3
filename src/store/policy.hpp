// Which record to give up first: GreedyDual-Size-Frequency (Cherkasova, Improving WWW Proxies Performance with
// Greedy-Dual-Size-Frequency Caching Policy, HPL-98-69R1).
//
//   priority = age + uses * cost / bytes
//
// The lowest goes first, and `age` becomes the priority of what went: records that are used again overtake it, the
// others fall behind without anybody counting time. On top of it stands the rule of the chain: a record goes after
// those that name it as their parent, because without it they cannot be reached.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvasir::store {

// A record whose cost nobody knows still has one: then frequency and size decide.
inline double priority(double age, std::uint64_t uses, float cost, std::uint64_t bytes) {
  constexpr float kLeastCost = 1e-6f;
  return age + static_cast<double>(uses) * static_cast<double>(std::max(cost, kLeastCost)) /
                   static_cast<double>(std::max<std::uint64_t>(bytes, 1));
}

}  // namespace kvasir::store
