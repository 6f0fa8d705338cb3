// config.json, as metadata with GGUF's keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weights/model_file.hpp"
#include "weights/safetensors/f8_rows.hpp"
#include "weights/safetensors/family.hpp"
#include "weights/safetensors/int4_rows.hpp"
#include "weights/safetensors/json_text.hpp"

namespace kvasir::weights {

// Tensors that GGUF has and a folder says in its configuration: factors of RoPE.
struct Extra {
  std::string name;
  std::vector<float> values;
};

struct Configuration {
  const Family* family = nullptr;
  bool tied = false;  // the head is the embedding, whatever else the files hold
  std::int64_t heads = 0, kv_heads = 0, vocabulary = 0;
  std::vector<Extra> extras;
  std::optional<Int4Config> int4;  // matrices may have codes of 4 bits
  F8Blocks f8;                     // of scales of 8-bit floats
};

// Reads `config`, which stands at `path`, into `metadata`. Throws Error naming path, field and expectation:
// kUnsupported for what is well formed but would be computed otherwise here.
Configuration read_config(const FolderJson& config, const std::string& path, Metadata& metadata);

}  // namespace kvasir::weights
