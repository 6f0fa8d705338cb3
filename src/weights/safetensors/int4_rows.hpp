// Matrices of 4-bit codes as folders publish them, x = (q - z) s with one s and z for each output and group of inputs:
//   AWQ                 qweight (in, out / 8) int32, nibble 4 {0,4,1,5,2,6,3,7}[o % 8] of a word; qzeros (groups, out / 8)
//                       likewise; scales (groups, out). Source: the GEMM layout of AutoAWQ (arXiv:2306.00978).
//   GPTQ                qweight (in / 8, out) int32, nibble 4 (i % 8); qzeros (groups, out / 8), nibble 4 (o % 8), of z - 1
//                       unless checkpoint_format is gptq_v2; scales (groups, out); g_idx (in): the group of an input.
//                       Source: AutoGPTQ (arXiv:2210.17323).
//   compressed-tensors  weight_packed (out, in / 8) int32, nibble 4 (i % 8) of q + 8; weight_scale (out, groups);
//                       weight_zero_point (out / 8, groups), nibble 4 (o % 8), of z + 8, if there is one;
//                       weight_g_idx (in) likewise, with actorder "group".
// Inputs of a group follow each other, but for act-order: there TensorInfo::ordered has them sorted by group, and
// who reads the file's order gets floats.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weights/model_file.hpp"
#include "weights/safetensors/fields.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::weights {

enum class Int4Method { kAwq, kGptq, kCompressed };

// "quantization_config" of config.json.
struct Int4Config {
  Int4Method method = Int4Method::kAwq;
  std::int64_t group = 128;  // inputs of a group; 0: all
  bool zeros_less_one = false;
};

// Throws Error(kUnsupported) naming the field for what is none of these.
Int4Config read_int4_config(const ConfigFields& fields);

// The stem and the part of a tensor's name, "….q_proj" and "qweight"; nothing: it is no part of such a matrix.
struct Int4Part {
  std::string stem, part;
};
std::optional<Int4Part> int4_part(std::string_view name, Int4Method method);

// A matrix of its parts. `stem` and `path` name it in messages. Throws Error naming part and expectation.
TensorInfo int4_matrix(const Int4Config& config, const std::map<std::string, ShardTensor>& parts,
                       const std::string& stem, const std::string& path);

}  // namespace kvasir::weights
