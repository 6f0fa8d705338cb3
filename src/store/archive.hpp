// Records in one file, to carry them from one cache to another (docs/formats/archive.md).
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "store/key.hpp"

namespace kvasir::store {

// Writes beside `path` and renames at the end, so that there is a whole archive or none. What is kept are people's
// prompts: only the owner may read it. All throw Error(kIo) naming the path; Error(kBadInput) for a path that cannot be
// replaced by a file.
class ArchiveWriter {
 public:
  explicit ArchiveWriter(std::string path);
  ~ArchiveWriter();  // without finish: nothing is left
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  void add(const Key& key, std::span<const std::byte> record);
  void finish();

  std::uint64_t records() const { return records_; }
  std::uint64_t bytes() const;  // of the file so far

 private:
  void write(std::span<const std::byte> bytes);

  const std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  std::uint64_t records_ = 0;
  std::uint64_t body_ = 0;  // bytes behind the header
};

struct ArchiveEntry {
  Key key;
  std::span<const std::byte> record;
};

// Reads all of it: every checksum, every record, every chunk's key. Throws Error(kBadInput) naming `name` and the first
// byte that is not right. The entries point into `bytes`.
std::vector<ArchiveEntry> read_archive(std::span<const std::byte> bytes, const std::string& name);

}  // namespace kvasir::store
