// Hyper-parameters of a model, read from a file's metadata and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/arch.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

struct Config {
  std::string arch_name;
  const Arch* arch = nullptr;
  int layers = 0;
  int dim = 0;  // D, residual width
  int ffn = 0;
  int heads = 0;       // H, query heads
  int kv_heads = 0;    // KV
  int head_dim = 0;    // d, of queries and keys; a multiple of 8
  int head_dim_v = 0;  // dv
  int rope_dims = 0;   // n_rot <= d, even
  std::int64_t vocab = 0;
  std::int64_t context = 0;  // what the model was trained for
  float norm_eps = 0;

  // RoPE: the angle of pair i at position p is p * rope_frequency[i]; cos and sin are multiplied by rope_magnitude.
  std::vector<double> rope_frequency;  // (n_rot / 2)
  float rope_magnitude = 1.0f;

  std::int64_t size(Dim dim_name) const;
};

// Throws Error(kBadInput / kUnsupported) naming file, key and expectation.
Config read_config(const weights::ModelFile& file);

}  // namespace kvasir::model
