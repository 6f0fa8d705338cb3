// What streaming of weights did.
#pragma once

#include <cstdint>

namespace kvasir::weights {

// Counted since the start.
struct StreamStats {
  std::uint64_t bytes_read = 0;
  std::uint64_t blocks = 0;    // that the computation asked for
  std::uint64_t late = 0;      // of them: it had to wait
  std::uint64_t restarts = 0;  // the computation did not follow the cycle, and what was read ahead was thrown away
  std::uint64_t retries = 0;   // of reads that failed, ended early or gave damaged bytes
  // Of experts that are not all in memory.
  std::uint64_t experts = 0;           // that were needed
  std::uint64_t experts_read = 0;      // of them: were not in memory, nor on the way
  std::uint64_t experts_expected = 0;  // of them: were on the way
  std::uint64_t experts_ahead = 0;     // that were read because they might be needed
  double stall_seconds = 0;            // the computation waited
  double busy_seconds = 0;             // something was being read

  bool any() const { return blocks > 0 || experts > 0; }
  // Of the time of reading, the share in which the computation went on. 0 to 1.
  double overlap() const { return busy_seconds > stall_seconds ? 1 - stall_seconds / busy_seconds : 0; }
  // Bytes a second while something was read.
  double bandwidth() const { return busy_seconds > 0 ? static_cast<double>(bytes_read) / busy_seconds : 0; }
  StreamStats operator-(const StreamStats& from) const;
  StreamStats& operator+=(const StreamStats& other);
};

}  // namespace kvasir::weights
