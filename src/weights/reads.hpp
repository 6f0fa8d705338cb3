// Reads of one file, many at a time, past the page cache where the file system can do that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kvasir::weights {

inline constexpr int kMostReads = 16;  // in flight

struct ReadRequest {
  std::int64_t at = 0;  // in the file; multiples of kBlockAlign, as `bytes` and the address `to`
  std::int64_t bytes = 0;
  std::byte* to = nullptr;
  std::uint64_t tag = 0;  // the caller's
};

struct ReadAnswer {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes that were read, fewer than asked at the file's end or by accident; or -errno
};

// For one thread.
class Reads {
 public:
  virtual ~Reads() = default;  // waits for what is in flight
  // REQUIRES: fewer than kMostReads are in flight.
  virtual void start(const ReadRequest& request) = 0;
  // The next one that is over, whichever it is. REQUIRES: some are in flight.
  virtual ReadAnswer wait() = 0;
  virtual std::string name() const = 0;  // "io_uring, direct"
};

// By io_uring if the library was built with it and the system allows it, else by threads. Throws Error(kIo) naming the
// path. KVASIR_READS=threads forces threads.
std::unique_ptr<Reads> open_reads(const std::string& path);

// Each way by itself; null: not here.
std::unique_ptr<Reads> open_uring(const std::string& path);
std::unique_ptr<Reads> open_threads(const std::string& path);

}  // namespace kvasir::weights
