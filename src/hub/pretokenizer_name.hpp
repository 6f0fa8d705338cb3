// What tokenizer.json says of how texts are cut, as a name of tokenizer.ggml.pre.
#pragma once

#include <optional>
#include <string>

#include "weights/safetensors/json_text.hpp"

namespace kvasir::hub {

// Of a byte-level BPE. `tokenizer` is the whole file's object. Nothing: no pre-tokenizer here does just what it says.
std::optional<std::string> pretokenizer_name(const weights::FolderJson& tokenizer);

}  // namespace kvasir::hub
