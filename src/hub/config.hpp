// config.json, as metadata with GGUF's keys.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hub/family.hpp"
#include "weights/model_file.hpp"
#include "weights/safetensors/coded_rows.hpp"
#include "weights/safetensors/f8_rows.hpp"
#include "weights/safetensors/int4_rows.hpp"
#include "weights/safetensors/json_text.hpp"

namespace kvasir::hub {

// Tensors that GGUF has and a folder says in its configuration: factors of RoPE.
struct Extra {
  std::string name;
  std::vector<float> values;
};

// Latent attention: what a head has of the matrix that makes keys and values.
struct LatentHeads {
  std::int64_t heads = 0, keys = 0, values = 0;
};

// Value heads that lie by their key heads here and one of each key head behind the other in GGUF.
struct TiledHeads {
  std::int64_t key_heads = 0, value_heads = 0, values = 0;  // heads, and elements of a value head
  std::int64_t before = 0;  // rows before the values where they share a tensor with queries and keys
};

// Rows and what they are multiplied by, from the first on.
using RowFactors = std::vector<std::pair<std::int64_t, float>>;

struct Configuration {
  Family family;
  bool tied = false;  // the head is the embedding, unless the files hold one of other numbers
  std::int64_t heads = 0, kv_heads = 0, vocabulary = 0, width = 0;
  std::int64_t experts = 0;
  std::int64_t layers = 0, predicting = 0;  // layers behind the others that predict further tokens, which are left out
  std::int64_t norm_groups = 1;             // of the norm behind Mamba-2
  std::vector<Extra> extras;
  std::optional<weights::Int4Config> int4;    // matrices may have codes of 4 bits
  std::optional<weights::CodedConfig> coded;  // matrices may have codes of compressed-tensors or MLX
  weights::F8Blocks f8;                       // of scales of 8-bit floats
  LatentHeads latent;
  TiledHeads tiled;
  std::map<std::string, RowFactors, std::less<>> factors;  // by name in a layer; rows behind: of the whole tensor
};

// Reads `config`, which stands at `path`, into `metadata`. Throws Error naming path, field and expectation:
// kUnsupported for what is well formed but would be computed otherwise here.
Configuration read_config(const weights::FolderJson& config, const std::string& path, weights::Metadata& metadata);

}  // namespace kvasir::hub
