// The folders of tests/golden/folders, whose tensors' values are computed from their names as tools/golden_folders.py
// does it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "folder_fixture.hpp"
#include "simd/half.hpp"

namespace kvasir::testing {

inline const std::string kGoldenFolders = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/folders/";

inline std::vector<std::string> golden_folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenFolders))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// splitmix64 of the element's number and the name's FNV-1a hash.
class NamedNumbers {
 public:
  explicit NamedNumbers(const std::string& name) {
    for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

// [name, type, shape, exponent, offset]; of I64 an order, or the numbers in place of the exponent; of U8: bits that are
// dropped in place of the exponent.
inline FolderTensor golden_tensor(const PlainJson& t) {
  FolderTensor out{t[0].get<std::string>(), t[1].get<std::string>(), t[2].get<std::vector<std::int64_t>>(), {}};
  std::int64_t n = 1;
  for (const std::int64_t d : out.shape) n *= d;
  if (out.dtype == "I64") {  // the numbers themselves, or an order: the "exponent" is its step
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t x = t[3].is_array() ? t[3][static_cast<std::size_t>(i)].get<std::int64_t>()
                                             : (i * t[3].get<std::int64_t>() + t[4].get<std::int64_t>()) % n;
      out.bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
    }
    return out;
  }
  NamedNumbers numbers(out.name);
  const int exponent = t[3].get<int>();
  const float step = std::ldexp(1.0f, exponent), offset = t[4].get<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t z = numbers.next();
    if (out.dtype == "U8") {
      out.bytes += static_cast<char>(static_cast<int>(offset) + static_cast<int>(z >> exponent));
      continue;
    }
    const std::uint16_t half = simd::f32_to_f16(offset + (static_cast<float>(z >> 53) / 1024 - 1) * step);
    out.bytes.append(reinterpret_cast<const char*>(&half), 2);
  }
  return out;
}

struct GoldenFolder {
  PlainJson config;
  std::vector<FolderTensor> tensors;
  std::vector<float> logits;      // (tokens, vocabulary)
  std::vector<std::int32_t> ids;  // (tokens)
};

inline GoldenFolder golden_folder(const std::string& name) {
  const PlainJson described = PlainJson::parse(read_text_file(kGoldenFolders + name + ".json"));
  GoldenFolder out{.config = described["config"], .tensors = {}, .logits = {}, .ids = {}};
  for (const PlainJson& t : described["tensors"]) out.tensors.push_back(golden_tensor(t));
  const std::string bytes = read_text_file(kGoldenFolders + name + ".logits.f32");
  out.logits.resize(bytes.size() / 4);
  std::memcpy(out.logits.data(), bytes.data(), bytes.size());
  out.ids = PlainJson::parse(read_text_file(std::string(KVASIR_SOURCE_DIR) + "/tests/golden/tokens.json"))["tokens"]
                .get<std::vector<std::int32_t>>();
  out.ids.resize(out.logits.size() / out.config["vocab_size"].get<std::size_t>());
  return out;
}

}  // namespace kvasir::testing
