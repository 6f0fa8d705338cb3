// What a tier did, counted by the threads that did it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace kvasir::store {

struct Counters {
  std::atomic<std::uint64_t> hits{0}, misses{0}, hit_bytes{0};
  std::atomic<std::uint64_t> damaged{0}, foreign{0};
  std::atomic<std::uint64_t> late{0}, errors{0};
  std::atomic<std::uint64_t> inserts{0}, insert_bytes{0}, kept{0}, refused{0}, dropped{0};

  void fail(const std::string& why) {
    ++errors;
    const std::lock_guard lock(mutex_);
    last_error_ = why;
  }
  std::string last_error() const {
    const std::lock_guard lock(mutex_);
    return last_error_;
  }

 private:
  mutable std::mutex mutex_;
  std::string last_error_;
};

}  // namespace kvasir::store
