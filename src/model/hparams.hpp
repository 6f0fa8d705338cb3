// Hyper-parameters of a model file, as architectures ask for them. Every error names file, key and expectation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/arch_metadata.hpp"
#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

struct Arch;

class Hparams : public ArchMetadata {
 public:
  // Throws Error(kUnsupported) for an architecture that is not in the registry, Error(kBadInput) where the numbers that
  // every model has are absent or absurd. `file` must outlive it. `tokens`: the most that a sequence will have.
  explicit Hparams(const weights::ModelFile& file, std::int64_t tokens = 0);

  const Arch& entry() const { return *entry_; }
  int layers() const { return layers_; }           // without those that predict further tokens (nextn_predict_layers)
  int nextn() const { return blocks_ - layers_; }  // how many these are; they stand behind the others
  int dim() const { return dim_; }
  std::int64_t vocab() const { return vocab_; }      // rows of token_embd.weight
  std::int64_t context() const { return context_; }  // what the model was trained for

  int heads(int layer) const { return in_layer("attention.head_count", layer); }
  int kv_heads(int layer) const;  // heads(layer) is a multiple of it
  // How hybrids say which layers are attention: those whose numbers of heads are not 0.
  bool attends(int layer) const;
  int head_dim(int layer) const;  // d, a multiple of 8
  int head_dim_v(int layer) const;
  int ffn(int layer) const { return in_layer("feed_forward_length", layer); }
  // Of layers with a window, else 0. Layers come in periods whose last one sees everything, unless
  // attention.sliding_window_pattern is another period or says it of every layer. A period of 1 is of no layer with a
  // window, of 0 of such layers only. `fallback`: without
  // attention.sliding_window.
  enum class Period { kLastSeesAll, kFirstSeesAll };
  std::int64_t window(int layer, int period, std::int64_t fallback = 0, Period order = Period::kLastSeesAll) const;
  // Files may have either; each is the other where it is missing.
  float rms_eps() const;
  float layer_eps() const;
  // Pairs of rope.dimension_count elements (`d` without that key), base rope.freq_base; scaling none, linear or YaRN
  // (arXiv:2309.00071). Divisors from rope_freqs.weight where the file has them, or from rope_factors_long.weight and
  // rope_factors_short.weight (LongRoPE, arXiv:2402.13753): the former for sequences that may become longer than
  // rope.scaling.original_context_length. `whole`: YaRN's ramp begins and ends at a pair, unless the file says
  // otherwise.
  Rope rope(kernel::RopePairs pairs, int d, bool whole = true) const;
  // The same without scaling and divisors. base 0: rope.freq_base.
  Rope plain_rope(kernel::RopePairs pairs, int d, double base = 0) const;
  // rope() with Rope::axes from rope.dimension_sections, the numbers of pairs that turn by each part of a position, if
  // the file has them: one part's pairs behind another's (Qwen2-VL), or interleaved (Qwen3-VL): pair 3 i + a turns by
  // part a up to that part's number, all others by time.
  Rope rope_of_places(int d, bool interleaved) const;

  bool has_tensor(std::string_view name) const { return file_.find(name) != nullptr; }
  bool scales_matrices(std::string_view name) const;  // NAME.scale is for the loader: model/factors.hpp
  std::int64_t rows_of(std::string_view name) const { return file_.find(name)->rows(); }  // REQUIRES: has_tensor
  // The magnitude of YaRN, whatever its factor, where the file has it.
  static constexpr std::string_view kYarnMagnitude = "rope.scaling.yarn_attn_factor";

 private:
  const weights::ModelFile& file_;
  const Arch* entry_ = nullptr;
  int dim_ = 0;
  std::int64_t vocab_ = 0;
  std::int64_t context_ = 0;
  std::int64_t tokens_ = 0;
};

// What a file says it is, for sequences of up to `tokens` tokens (0: the model's context). Tensors are not checked yet
// (Model::load, check_tensors).
ModelSpec read_spec(const weights::ModelFile& file, std::int64_t tokens = 0);

}  // namespace kvasir::model
