// A codec on given keys and values: what comes back, what scores and attention become. Everything goes through the
// codec's contract (kv/codec.hpp): pages are sealed from raw blocks, scores come from `dots` and outputs from
// `accumulate` on packed bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/eval/kv_file.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::lab::eval {

struct CodecRow {
  std::string kv;
  bool has_k = false, has_v = false;
  double bits_k = 0, bits_v = 0;               // per element of a whole page, everything included
  Distortion::Energy k, v;                     // reconstruction
  Regression scores;                           // Gaussian queries: score from packed keys against the exact one
  double output_signal = 0, output_error = 0;  // attention outputs, sums of squares
  double output_relative_error() const;        // |o - o^| / |o|
  CodecRow& operator+=(const CodecRow& other);
};

struct TrialOptions {
  int queries = 64;  // per head, N(0, 1) in every channel; weights are softmax(q k / sqrt(d)) over all tokens
  std::uint64_t seed = 1;
};

// The sides that `name` (a preset, CODEC or KEYS/VALUES) can store here. strict: throws Error(kBadInput) when it
// cannot store the keys, or the values if there are any; otherwise an empty string means that.
struct Sides {
  std::string k, v;
};
Sides sides_of(const std::string& name, const KvPair& pair, bool strict);

// Rows of a last page that is not full are put at the page's end, the rest is left out as sinks are.
CodecRow try_codecs(const std::string& name, const Sides& sides, const KvPair& pair, const TrialOptions& options);

}  // namespace kvasir::lab::eval
