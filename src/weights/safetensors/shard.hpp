// Safetensors: the parser of untrusted bytes, without a file under it.
//
// Layout: u64 length of the header (little endian), the header, tensor data to the end of the file. The header is a
// JSON object: name -> {"dtype", "shape", "data_offsets": [begin, end]}, and "__metadata__" with texts. Offsets count
// from the end of the header; the tensors tile the data without overlap or gap. Source:
// https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvasir::weights {

struct ShardTensor {
  std::string name;
  std::string dtype;                // "BF16"
  std::vector<std::int64_t> shape;  // slowest dimension first; empty: one element
  std::span<const std::byte> bytes;
};

// The tensors in the order of their bytes. `path` only names the file in messages. Throws Error(kBadInput) naming file,
// tensor and expectation. Allocates at most a small multiple of the header's size.
std::vector<ShardTensor> parse_safetensors(std::span<const std::byte> file, const std::string& path);

inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as the reference implementation has it

}  // namespace kvasir::weights
