// What the world does to a backend, on purpose and repeatably: delays, failures, bit flips, lost writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "store/backend.hpp"

namespace kvasir::store {

// Probabilities from 0 to 1. The same seed and the same sequence of calls give the same faults.
struct Faults {
  std::uint64_t seed = 1;
  Clock::duration delay{};  // of every call that reads or writes, never beyond its deadline
  double fail = 0;          // a call does nothing and says so
  double flip = 0;          // one bit of a found record is another
  double drop = 0;          // a put record is said to be stored and is not
};

// Faults that were made so far.
struct FaultCount {
  std::atomic<std::uint64_t> failed{0}, flipped{0}, dropped{0};
};

std::unique_ptr<Backend> faulty(std::unique_ptr<Backend> inner, const Faults& faults,
                                std::shared_ptr<FaultCount> count = std::make_shared<FaultCount>());

}  // namespace kvasir::store
