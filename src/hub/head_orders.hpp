// What lies by head in a folder and otherwise in GGUF: orders of rows, of columns and of numbers. All throw
// Error(kBadInput) naming file and tensor where its size does not fit the heads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hub/config.hpp"
#include "weights/model_file.hpp"

namespace kvasir::hub {

// Value heads of gated DeltaNet in GGUF's order. Others stay as they are.
weights::TensorInfo by_heads(const Configuration& c, const Place& place, weights::TensorInfo info,
                             const std::string& path);
// Numbers of one for each value head, or of the rows of attn_qkv by KV head.
void vector_by_heads(const Configuration& c, const Place& place, const weights::TensorInfo& info, std::vector<float>& x,
                     const std::string& path);
// Queries, keys and values, each of all heads, of rows that are there by KV head or (CodeGen) in four parts.
std::vector<std::int64_t> fused_rows(const Configuration& c, Make make, std::int64_t rows, const std::string& name,
                                     const std::string& path);
// Of (heads * (keys + values), rank): keys (heads, rank, keys) and values (heads, values, rank).
std::pair<weights::TensorInfo, weights::TensorInfo> latent_by_heads(const Configuration& c, const Place& place,
                                                                    const weights::TensorInfo& info,
                                                                    const std::string& path);
// How many heads' rows have to change places.
std::int64_t pairs_of(const Configuration& c, std::string_view name);

}  // namespace kvasir::hub
