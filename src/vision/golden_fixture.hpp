// Pictures of tests/golden/vision (tools/golden_pixels.py, tools/golden_pictures.py).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/options.hpp"
#include "vision/picture.hpp"

namespace kvasir::vision {

inline std::string golden(const std::string& name) {
  return std::string(KVASIR_SOURCE_DIR) + "/tests/golden/vision/" + name;
}

// Of a kind: the file beside text models, or the folder where llama.cpp's converter makes no such file.
inline std::string encoder_of(const std::string& kind) {
  const std::string file = golden(kind + ".gguf");
  return std::filesystem::exists(file) ? file : golden("folders/" + kind);
}

inline nlohmann::json golden_json(const std::string& name) { return parse_json(read_text_file(golden(name)), name); }

inline std::vector<std::byte> golden_bytes(const std::string& name) {
  const std::string text = read_text_file(golden(name));
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Whether this build reads the file's kind; the others refuse it by naming a package.
inline bool reads(const std::string& name) {
  try {
    read_picture(golden(name));
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupported && e.message().find("-dev)") != std::string::npos) return false;
  }
  return true;
}

}  // namespace kvasir::vision
