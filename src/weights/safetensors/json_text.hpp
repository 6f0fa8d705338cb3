// JSON files of a model's folder, which strangers made.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvasir::weights {

// Keys are looked up, never rendered: their order does not matter here.
using FolderJson = nlohmann::json;

// Throws Error(kBadInput) naming `path` for what is no JSON object in UTF-8, nests deeper than 64, or has a key twice
// in one object.
FolderJson parse_folder_json(std::string_view text, const std::string& path);

// The file's object. Throws the same, and Error(kIo) when it cannot be read; more than `most` bytes are refused.
FolderJson read_folder_json(const std::string& path, std::uint64_t most);

}  // namespace kvasir::weights
