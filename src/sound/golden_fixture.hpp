// Sounds of tests/golden/sound (tools/golden_sounds.py).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/options.hpp"
#include "sound/sound.hpp"

namespace kvasir::sound {

inline constexpr int kGoldenRate = 16000;

inline std::string golden_sound(const std::string& name) {
  return std::string(KVASIR_SOURCE_DIR) + "/tests/golden/sound/" + name;
}

inline std::vector<float> golden_floats(const std::string& name) {
  const std::string bytes = read_text_file(golden_sound(name));
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

inline Sound heard(const std::string& name) {
  const std::string bytes = read_text_file(golden_sound(name));
  return decode(std::as_bytes(std::span(bytes)), name, kGoldenRate);
}

// Whether this build reads the file; others refuse it by naming a package.
inline bool hears(const std::string& name) {
  try {
    heard(name);
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupported && e.message().find("-dev)") != std::string::npos) return false;
  }
  return true;
}

}  // namespace kvasir::sound
