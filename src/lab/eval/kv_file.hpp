// Keys or values of one layer, and the file they are kept in:
//   5 x u32, little-endian: 0x544B5651, layer, heads, tokens, dim; then float32 [head][token][dim].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvasir::lab::eval {

inline constexpr std::uint32_t kKvMagic = 0x544B5651;

struct KvArray {
  int layer = 0;
  int heads = 0;
  int tokens = 0;
  int dim = 0;
  std::vector<float> data;

  const float* head(int h) const { return data.data() + static_cast<std::ptrdiff_t>(h) * tokens * dim; }
};

// Throws Error(kIo, kBadInput) naming the file and what is wrong with it: magic, counts, length, numbers.
KvArray read_kv_file(const std::string& path);
void write_kv_file(const std::string& path, const KvArray& array);

// Keys and values of one layer; values may be absent (no heads). queries: of the layer's query heads, where they were
// captured, too.
struct KvPair {
  KvArray keys, values, queries;
};
// "KEYS.bin" or "KEYS.bin,VALUES.bin". Throws also when the two do not belong together.
KvPair read_kv_pair(const std::string& paths);

}  // namespace kvasir::lab::eval
