// What the folders of one model type have that GGUF does not: the names and places by which a translator of it differs.
#pragma once

#include <string>
#include <string_view>

namespace kvasir::weights {

struct Family {
  std::string_view model_type;  // of config.json
  std::string_view arch;        // general.architecture
  // RoPE turns adjacent pairs in GGUF files of this architecture and halves of a head here: the rows of queries and
  // keys change places.
  bool pairs = false;
  // Norms multiply by 1 + weight here, by the weight in GGUF.
  bool one_more = false;
  // "post_attention_layernorm" stands behind attention; otherwise in front of the feed forward.
  bool post_norms = false;
  std::string_view activation = "silu";
};

// Throws Error(kUnsupported) naming `path` and the types that are known.
const Family& family_of(std::string_view model_type, const std::string& path);

// The name in GGUF of a tensor; empty: of no use to a language model (buffers, a vision tower). Throws
// Error(kUnsupported) for a name that is neither.
std::string gguf_name(const Family& family, std::string_view name, const std::string& path);

}  // namespace kvasir::weights
