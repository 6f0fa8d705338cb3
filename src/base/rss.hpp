// Resident memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvasir {

struct Rss {
  std::uint64_t current = 0;    // bytes in memory now: anonymous + file + shared
  std::uint64_t anonymous = 0;  // of them: this process's own (heap, buffers)
  std::uint64_t file = 0;       // of them: pages of mapped files (weights read in place)
  std::uint64_t peak = 0;       // the largest `current` since the start or reset_peak_rss
};

// Throws Error(kUnsupported) where there is no /proc.
Rss process_rss();

// Nothing where there is no /proc.
std::optional<Rss> find_process_rss();

// Starts a new peak at the current size. Returns false where the kernel does not allow it (then the peak keeps counting
// from the start of the process).
bool reset_peak_rss();

// The figures in the text of a /proc/PID/status file; separate so that it can be tested.
Rss parse_rss(const std::string& status);

}  // namespace kvasir
