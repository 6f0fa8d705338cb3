// Tensors made of those that lie in a folder's files. Nothing is copied: rows are made when they are asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weights/model_file.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::weights {

// Matrices of one shape and weight type, one behind the other. REQUIRES: at least one, all alike.
TensorInfo stacked(std::vector<TensorInfo> matrices);

// The rows of all, one behind the other, as one matrix. REQUIRES: at least one, of one width and weight type, matrices.
TensorInfo joined(std::vector<TensorInfo> parts);

// All elements, rows one behind the other.
std::vector<float> all_floats(const TensorInfo& t);

// first, first + step, ...: n numbers.
std::vector<std::int64_t> counted(std::int64_t first, std::int64_t n, std::int64_t step = 1);

// Rows `rows` of a tensor in that order, as `count` matrices. REQUIRES: rows of it; their number is a multiple of
// count.
TensorInfo picked(TensorInfo from, std::vector<std::int64_t> rows, std::int64_t count = 1);

// Columns in another order, `unit` at a time: column unit c of the result is number columns[c] of the tensor's.
// REQUIRES: a unit is whole blocks of the weight type.
TensorInfo with_columns(TensorInfo from, std::vector<std::int64_t> columns, std::int64_t unit);

// Every matrix (rows, columns) as (columns, rows). Types of blocks become f16, those of folders f32.
TensorInfo turned(TensorInfo from);

// Row r multiplied by by_row[r], rounded to f32, f16 or bf16 as the tensor is; types of blocks become f16,
// those of folders f32.
TensorInfo multiplied(TensorInfo from, std::vector<float> by_row);

// MXFP4 as gpt-oss has it: blocks (..., columns / 32, 16) of two codes each, in order, the first in the lower half of a
// byte; scales (..., columns / 32), exponents of 2 with a bias of 127. Throws Error(kBadInput) naming tensor and
// expectation; `path` names the file.
TensorInfo mxfp4_matrices(const ShardTensor& blocks, const ShardTensor& scales, const std::string& path);

}  // namespace kvasir::weights
