// Hyper-parameters of a model file: metadata under "ARCH.", read with checks. Every error names file, key and
// expectation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

struct Arch;

class Hparams {
 public:
  // Throws Error(kUnsupported) for an architecture that is not in the registry, Error(kBadInput) where the numbers that
  // every model has are absent or absurd. `file` must outlive it.
  explicit Hparams(const weights::ModelFile& file);

  const Arch& entry() const { return *entry_; }
  const std::string& arch() const { return arch_; }
  int layers() const { return layers_; }
  int dim() const { return dim_; }
  std::int64_t vocab() const { return vocab_; }      // rows of token_embd.weight
  std::int64_t context() const { return context_; }  // what the model was trained for

  // Keys are without "ARCH.".
  bool has(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  std::int64_t integer_or(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string text_or(std::string_view key, std::string_view fallback) const;
  // One number for all layers, or an array with one for each. Without a fallback the key is required.
  int in_layer(std::string_view key, int layer, std::optional<int> fallback = {}) const;

  int heads(int layer) const { return in_layer("attention.head_count", layer); }
  int kv_heads(int layer) const;  // heads(layer) is a multiple of it
  int head_dim(int layer) const;  // d, a multiple of 8
  int head_dim_v(int layer) const;
  int ffn(int layer) const { return in_layer("feed_forward_length", layer); }
  float rms_eps() const { return eps("attention.layer_norm_rms_epsilon"); }
  float layer_eps() const { return eps("attention.layer_norm_epsilon"); }
  // Pairs of rope.dimension_count elements (`d` without that key), base rope.freq_base; scaling none, linear or YaRN
  // (arXiv:2309.00071); divisors from rope_freqs.weight where the file has them.
  Rope rope(kernel::RopePairs pairs, int d) const;

  bool has_tensor(std::string_view name) const { return file_.find(name) != nullptr; }
  [[noreturn]] void unsupported(std::string_view key, const std::string& text) const;

 private:
  std::string full(std::string_view key) const { return arch_ + "." + std::string(key); }
  float eps(std::string_view key) const;
  int head_size(std::string_view key, int fallback) const;
  void divide_by_factors(Rope& rope) const;

  const weights::ModelFile& file_;
  const weights::Metadata& m_;
  std::string arch_;
  const Arch* entry_ = nullptr;
  int layers_ = 0;
  int dim_ = 0;
  std::int64_t vocab_ = 0;
  std::int64_t context_ = 0;
};

// What a file says it is. Tensors are not checked yet (Model::load, check_tensors).
ModelSpec read_spec(const weights::ModelFile& file);

}  // namespace kvasir::model
