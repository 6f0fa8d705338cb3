// A model's packed weights in a file beside it: blocks that are read as they are used. docs/formats/weights.md has the
// bytes.
//
// A file is made once, under a temporary name, and gets its name when all of it is written. What is read is compared
// with checksums piece by piece; a file of another model, packing or version is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::weights {

inline constexpr std::int64_t kBlockAlign = 4096;     // of blocks, in the file and in memory: for direct reads
inline constexpr std::int64_t kPieceBytes = 1 << 20;  // what has a checksum and is read at once
using PackedFingerprint = std::array<std::byte, 16>;  // of the model's tensors and of how they are packed

constexpr std::int64_t padded(std::int64_t bytes) { return (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign; }
constexpr std::int64_t pieces_in(std::int64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

// Memory for direct reads and writes.
class PageBuffer {
 public:
  PageBuffer() = default;
  PageBuffer(tensor::Tag tag, std::int64_t bytes) : buffer_(tag, static_cast<std::size_t>(bytes + kBlockAlign)) {}
  std::byte* data() const {
    const auto at = reinterpret_cast<std::uintptr_t>(buffer_.data());
    return buffer_.data() + (static_cast<std::uintptr_t>(padded(static_cast<std::int64_t>(at))) - at);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(buffer_.size()); }  // as allocated

 private:
  tensor::Buffer buffer_;
};

// Of any text that says everything which changes the packed bytes.
PackedFingerprint packed_fingerprint(std::string_view text);
std::string hex_of(const PackedFingerprint& fingerprint);
std::uint64_t piece_checksum(std::span<const std::byte> piece);

// Where blocks lie in a file.
struct PackedLayout {
  std::vector<std::int64_t> at, bytes;  // of every block; `bytes` are multiples of kBlockAlign
  std::int64_t end = 0;                 // of the file

  // Blocks of so many bytes, which are padded.
  explicit PackedLayout(std::span<const std::int64_t> block_bytes);
  PackedLayout() = default;
  int count() const { return static_cast<int>(at.size()); }
};

// An open file. Its header and checksums are right and fit the file's size; the blocks are not looked at yet.
class PackedFile {
 public:
  // Throws Error naming the path: kIo when it cannot be read, kBadInput when it is damaged or another one's.
  PackedFile(std::string path, const PackedFingerprint& fingerprint, std::span<const std::int64_t> block_bytes);

  const std::string& path() const { return path_; }
  const PackedLayout& layout() const { return layout_; }
  std::uint64_t checksum(int block, std::int64_t piece) const {
    return checksums_[static_cast<std::size_t>(first_[static_cast<std::size_t>(block)] + piece)];
  }

 private:
  std::string path_;
  PackedLayout layout_;
  std::vector<std::int64_t> first_;  // of every block: which checksum is its first piece's
  std::vector<std::uint64_t> checksums_;
};

// Throws Error(kBadInput) naming the file unless every piece of the mapped file has its checksum. Reads all of it.
void check_blocks(const PackedFile& file, std::span<const std::byte> mapped);

// Writes the file at `path`: `fill(block, to)` makes the bytes of a block, one after the other. The file is there,
// whole, when this returns, and else it is not. Throws Error(kIo) naming the path, also when the disk has too little
// room.
void write_packed_file(const std::string& path, const PackedFingerprint& fingerprint,
                       std::span<const std::int64_t> block_bytes,
                       const std::function<void(int, std::span<std::byte>)>& fill);

}  // namespace kvasir::weights
