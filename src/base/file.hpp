// Read-only memory-mapped file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvasir {

class MappedFile {
 public:
  // Throws Error(kIo) naming the path when it cannot be opened or mapped, Error(kBadInput) when it is empty or no
  // regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // A hint: gives the pages of a range that was copied elsewhere back (they leave this process's resident memory, the
  // file stays in the page cache).
  void drop(std::span<const std::byte> range) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Whole file as text. Throws Error(kIo) naming the path.
std::string read_text_file(const std::string& path);

// Writes `bytes` to `path` through a temporary file in the same folder and a rename, so that a reader sees the old or
// the new content and never a part. Throws Error(kIo), Error(kBadInput) as below.
void write_file(const std::string& path, std::span<const std::byte> bytes);

// Throws Error(kBadInput) when `path` is something that renaming a new file to it would destroy or cannot replace: a
// device (root may rename over /dev/null), a folder, a pipe.
void check_replaceable(const std::string& path);

}  // namespace kvasir
