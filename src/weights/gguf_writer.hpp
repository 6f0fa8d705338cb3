// Writes GGUF version 3: metadata, tensor descriptions, then the tensors' bytes as a stream that is never held in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf.hpp"

namespace kvasir::weights {

// The part of a file before the tensor data. Values keep the exact type they are set with: engines insist on some
// (u32 counts, f32 epsilons).
class GgufHeader {
 public:
  explicit GgufHeader(std::uint64_t alignment = kGgufAlignment);  // REQUIRES: a power of two, >= 8

  // T: std::int8_t … std::uint64_t, float, double, bool.
  template <class T>
  void set(std::string_view key, T value);
  void set_string(std::string_view key, std::string_view value);
  template <class T>
  void set_array(std::string_view key, std::span<const T> values);
  void set_strings(std::string_view key, std::span<const std::string> values);
  // A value as metadata of another format has it, in the types that engines expect: u32 where it fits, f32, i32 arrays.
  void set_value(std::string_view key, const Value& value);

  // The keys of a GGUF file and their values, byte for byte, but for those named and those that are here already.
  // REQUIRES: parse_gguf takes the file.
  void copy_metadata(std::span<const std::byte> file, std::span<const std::string_view> but);

  // The next tensor in file order; shape is {columns, rows, …}. Throws Error(kUnsupported) naming the tensor for an
  // unknown type, Error(kBadInput) for a bad shape. Returns the bytes its data takes.
  std::uint64_t add_tensor(std::string_view name, std::string_view quant, std::span<const std::int64_t> shape);

  std::uint64_t alignment() const { return alignment_; }
  std::span<const std::uint64_t> sizes() const { return sizes_; }  // bytes of each tensor added
  std::vector<std::byte> encode() const;                           // padded to the alignment
 private:
  void key(std::string_view key, GgufType type);

  std::uint64_t alignment_;
  std::uint64_t end_ = 0;  // of the tensor data so far, aligned
  std::vector<std::uint64_t> sizes_;
  std::multiset<std::string, std::less<>> keys_;
  std::vector<std::byte> metadata_;
  std::vector<std::byte> tensors_;
};

// Writes `path` through a temporary file beside it and a rename: `path` is the old or the whole new file, never a part.
class GgufWriter {
 public:
  // Writes the header. Throws Error(kIo), Error(kBadInput) when `path` exists and is no regular file.
  GgufWriter(std::string path, const GgufHeader& header);
  ~GgufWriter();  // without finish(): removes the temporary file
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // The next bytes of tensor data: the tensors in the order they were added, each in as many pieces as is convenient
  // that end with the tensor. Throws Error(kIo).
  void write(std::span<const std::byte> bytes);

  // REQUIRES: every tensor is complete. Throws Error(kIo).
  void finish();

  std::uint64_t bytes_written() const { return written_; }

 private:
  void put(std::span<const std::byte> bytes);
  [[noreturn]] void io_error(const char* what);

  std::string path_;
  std::string temporary_;
  std::uint64_t alignment_;
  std::vector<std::uint64_t> sizes_;
  std::size_t tensor_ = 0;       // being written
  std::uint64_t in_tensor_ = 0;  // bytes of it already written
  std::uint64_t written_ = 0;
  int fd_ = -1;
};

}  // namespace kvasir::weights
