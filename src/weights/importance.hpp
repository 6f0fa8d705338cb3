// Importance matrices: how much the columns of a model's matrices count, as mean squares of what they were multiplied
// with. Two kinds of files of llama.cpp's imatrix tool: GGUF with NAME.in_sum2 and NAME.counts, and the older one,
// little endian: i32 entries; per entry i32 length, name, i32 calls, i32 n, f32 x n (sums of means of the calls).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::weights {

class Importance {
 public:
  // Throws Error naming the file, the entry and what was expected.
  static Importance read(const std::string& path);

  // Of the columns of matrix `i` of a tensor that has `count`; empty where the file says nothing about it. Throws
  // Error(kBadInput) where it is about a tensor of another size.
  std::span<const float> of(const TensorInfo& t, std::int64_t i, std::int64_t count) const;
  std::size_t size() const { return values_.size(); }

 private:
  std::string path_;
  std::map<std::string, std::vector<float>, std::less<>> values_;  // by tensor: (matrices, columns)
};

}  // namespace kvasir::weights
