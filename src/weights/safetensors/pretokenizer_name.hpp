// What tokenizer.json says of how texts are cut, as a name of tokenizer.ggml.pre.
#pragma once

#include <string>

#include "weights/safetensors/json_text.hpp"

namespace kvasir::weights {

// Of a byte-level BPE. `tokenizer` is the whole file's object, `path` names it. Throws Error(kUnsupported) that shows
// the pattern.
std::string pretokenizer_name(const FolderJson& tokenizer, const std::string& path);

}  // namespace kvasir::weights
