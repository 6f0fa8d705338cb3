// A file of this process alone, for pages that do not fit into memory: many pieces of it are read at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kvasir::kv {

// Bytes of the file from `at` on, and where they go.
struct FilePiece {
  std::uint64_t at;
  std::byte* to;
  std::size_t bytes;
};

// Every function may be called by one thread at a time.
class PageFile {
 public:
  virtual ~PageFile() = default;
  // All pieces, in any order. Throws Error(kIo) when the disk fails or ends before a piece does; what the pieces hold
  // then means nothing.
  virtual void read(std::span<const FilePiece> pieces) = 0;
  // Throws Error(kIo).
  virtual void write(std::uint64_t at, std::span<const std::byte> bytes) = 0;
  virtual const char* how() const = 0;  // pieces are read: "io_uring", "pread"
};

enum class Reading { kBest, kPlain };  // kPlain: without io_uring

// A new file of `bytes` bytes in `folder`, which are reserved on the disk. It has no name and is gone when it is closed
// or the process ends. Throws Error(kBadInput) when there is no such folder or it cannot be written, Error(kIo) when
// the disk has no room for it.
std::unique_ptr<PageFile> make_page_file(const std::string& folder, std::uint64_t bytes,
                                         Reading reading = Reading::kBest);

}  // namespace kvasir::kv
