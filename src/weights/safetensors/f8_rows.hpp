// Matrices of 8-bit floats, F8_E4M3 and F8_E5M2 of safetensors (Micikevicius et al. 2022, arXiv:2209.05433), as rows of
// f16: exact by themselves, rounded to f16 where a file has scales beside them:
//   weight_scale_inv (ceil(out / rows), ceil(in / columns)) of blocks, as "fp8" has them with weight_block_size
//   weight_scale     one number, or one for each output
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weights/model_file.hpp"
#include "weights/safetensors/fields.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::weights {

// Of weight_scale_inv; 0 by 0: there are no blocks.
struct F8Blocks {
  std::int64_t rows = 0, columns = 0;
};

// "quantization_config" of config.json if it is of 8-bit floats. Throws Error naming the field.
std::optional<F8Blocks> read_f8_config(const ConfigFields& fields);

bool is_f8(std::string_view dtype);

// Of a code with so many bits of exponent, 4 (E4M3, which has no infinity) or 5 (E5M2).
float f8_value(int code, int exponent);

// The stem of a tensor of scales, "….q_proj"; nothing: it is none.
std::optional<std::string> f8_scale(std::string_view name);

// A block of the weight type f8_e4m3: 64 codes and their scale, which is NaN where a code stands for no number.
inline constexpr std::int64_t kF8Block = 64, kF8BlockBytes = 68;
void put_f8_block(const std::byte* codes, float scale, std::byte* to);

// As f8_e4m3 where its blocks fit the matrix and the scales, else rounded to f16. `scale` may be null. `path` names the
// file in messages. Throws Error(kBadInput) naming tensor and expectation.
TensorInfo f8_matrix(const ShardTensor& weight, const ShardTensor* scale, const F8Blocks& blocks,
                     const std::string& path);

}  // namespace kvasir::weights
