// Counts and times what a backend is asked, for benchmarks and tests.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "store/backend.hpp"

namespace kvasir::store {

enum class Operation { kGet, kContains, kPut, kErase, kTouch, kClear, kList, kSync };
constexpr int kOperations = 8;

struct OperationReport {
  std::uint64_t calls = 0;
  std::uint64_t keys = 0;    // asked for or put
  std::uint64_t bytes = 0;   // found or stored
  std::uint64_t failed = 0;  // calls whose Status was not ok
  double seconds = 0;        // sum over calls
  double longest = 0;
  // Calls by time: bucket i counts those of [2^i, 2^(i+1)) microseconds; the first also shorter ones, the last longer.
  std::array<std::uint64_t, 24> times{};

  double percentile(double p) const;  // upper bound of the bucket, in seconds; 0 without calls
};

class Meter {
 public:
  OperationReport report(Operation operation) const;
  void record(Operation operation, std::uint64_t keys, std::uint64_t bytes, bool ok, Clock::duration time);

 private:
  mutable std::mutex mutex_;
  std::array<OperationReport, kOperations> reports_;
};

std::unique_ptr<Backend> metered(std::unique_ptr<Backend> inner, std::shared_ptr<Meter> meter);

}  // namespace kvasir::store
