// Matrices of codes and scales as compressed-tensors and MLX publish them, of which `out` rows have `in` elements:
//   compressed-tensors, integers  weight_packed (out, words) int32: codes q + 2^(bits - 1) of 2 to 8 bits, from version
//     0.18 on one stream of bits, lowest first, before that whole codes in every word; or weight (out, in) int8.
//     weight_scale (out, groups) or one number; weight_zero_point likewise, packed along `out` where the codes are.
//     x = (q - z) scale. weight_g_idx (in): the group of an input.
//   compressed-tensors, floats  weight (out, in) of 8 bits: weight_scale of one number, of every output or of blocks, or
//     (out, in / 32) uint8, exponents of 2 with a bias of 127 (MXFP8). weight_packed (out, in / 2) uint8 of 4 bits, the
//     first in the lower half: weight_scale (out, in / 32) such exponents (MXFP4), or (out, in / 16) F8_E4M3, which
//     weight_global_scale divides (NVFP4).
//   MLX  weight (..., out, words) uint32, a stream of bits; scales and biases (..., out, groups): x = scale q + bias. In
//     the modes mxfp4, mxfp8 and nvfp4 floats with scales of 8 bits and without biases.
// Rows are made in a weight type that has every number; where none of few bits does, they are floats.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/model_file.hpp"
#include "weights/safetensors/f8_rows.hpp"
#include "weights/safetensors/fields.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::weights {

// Of MLX: how a matrix is coded.
struct MlxCodes {
  std::int64_t group = 64;
  int bits = 4;
  std::string mode = "affine";
};

struct CodedConfig {
  bool mlx = false;
  MlxCodes codes;                         // of MLX
  std::map<std::string, MlxCodes> other;  // by the stem of a tensor's name
  std::vector<int> bits;                  // of compressed-tensors' integers, those that occur
  F8Blocks blocks;                        // of its 8-bit floats; 0 by 0: none
};

// "quantization_config" of config.json if compressed-tensors wrote it, and "quantization", which MLX writes. Throws
// Error(kUnsupported) naming the field for what is not computed.
std::optional<CodedConfig> read_compressed_config(const ConfigFields& fields);
CodedConfig read_mlx_config(const FolderJson& quantization, const std::string& path);

// The stem and the part of a tensor's name, "….q_proj" and "weight_packed"; nothing: it is no part of such a matrix.
struct CodedPart {
  std::string stem, part;
};
std::optional<CodedPart> coded_part(const ShardTensor& tensor, const CodedConfig& config);

// All elements are multiplied by `factor` besides, which is 1 unless `factors` are taken.
struct CodedMatrix {
  TensorInfo info;
  float factor = 1;
};

// A matrix of its parts, or (MLX) matrices. `stem` and `path` name it in messages. Throws Error naming part and
// expectation.
CodedMatrix coded_matrix(const CodedConfig& config, const std::map<std::string, ShardTensor>& parts,
                         const std::string& stem, bool factors, const std::string& path);

}  // namespace kvasir::weights
