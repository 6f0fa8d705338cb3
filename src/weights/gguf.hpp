// GGUF, versions 2 and 3, little endian: the parser of untrusted bytes, without a file under it.
//
// Layout: "GGUF", u32 version, u64 tensors, u64 keys; per key: string key, u32 type, value; per tensor: string name,
// u32 rank, u64 dimension x rank, u32 type, u64 offset; padding to `general.alignment` (32); tensor data. A string is a
// u64 length and bytes. Offsets count from the start of the tensor data.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::weights {

enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::uint32_t kGgufVersion = 3;
inline constexpr std::uint64_t kGgufAlignment = 32;  // when general.alignment is absent

struct GgufContents {
  std::uint32_t version = 0;
  std::uint64_t alignment = kGgufAlignment;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // their bytes point into the parsed span
};

// Reads a whole file's bytes; `path` only names it in messages. Throws Error naming file, field (key or tensor) and
// expectation: kBadInput for broken bytes, kUnsupported for what is well formed but unknown here. Faults that leave the
// rest readable (bad tensors, duplicates, …) are collected and reported together. Allocates at most a small multiple of
// the header's size, whatever the counts in it say.
GgufContents parse_gguf(std::span<const std::byte> file, const std::string& path);

// The name of a tensor type number in GGUF files ("Q4_K"), also of types that have no entry in weights/quants; empty
// for a number that stands for no type.
std::string ggml_type_name(std::uint32_t type);

// `general.file_type` of a file that is mostly of this type; nothing where the format has no number for that.
std::optional<std::uint32_t> gguf_file_type(std::string_view quant);

// How a tensor type that can be read is stored: `block` consecutive elements of a row take `block_bytes` bytes.
struct BlockType {
  std::string_view quant;  // stem of the entry in weights/quants
  std::uint32_t ggml_type;
  std::int64_t block;
  std::int64_t block_bytes;
};

// Of the types that both GGUF and weights/quants have: by number, by name (nothing for any other), all names.
std::optional<BlockType> find_block_type(std::uint32_t ggml_type);
std::optional<BlockType> find_block_type(std::string_view quant);
std::string block_type_names();

}  // namespace kvasir::weights
