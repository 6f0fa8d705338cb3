// Keys, values and queries of a real model, as its cache gets them: rotated, normed, biased.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/eval/kv_file.hpp"

namespace kvasir::lab::eval {

struct CaptureOptions {
  std::string model;
  std::string text;  // file
  std::int64_t tokens = 1024;
  std::int32_t threads = 0;
};

// One pair per layer. poll() is called now and then and may throw to stop. Throws Error(kBadInput) when the text has
// fewer tokens than asked for, or the model's context is shorter.
std::vector<KvPair> capture(const CaptureOptions& options, const std::function<void()>& poll);

// PREFIX_layerN_keys.bin, PREFIX_layerN_values.bin and PREFIX_layerN_queries.bin.
void save_capture(const std::string& prefix, const std::vector<KvPair>& layers);

}  // namespace kvasir::lab::eval
