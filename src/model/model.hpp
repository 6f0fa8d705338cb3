// A loaded model: its specification, bound to packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/numa.hpp"
#include "base/team.hpp"
#include "model/layer_weights.hpp"
#include "model/residency.hpp"
#include "model/spec.hpp"
#include "tensor/buffer.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

struct LoadOptions {
  bool exact = false;  // all matrices as dequantised floats: the reference path, 4 bytes per weight
  // Whether F16 and BF16 weights are multiplied as bf16 where that is faster (simd::multiplies_bf16). Measurements of
  // small differences do without: roundings that differ by chance look like differences.
  bool bf16_products = true;
  const class Model* lender = nullptr;  // whose matrices Linear::lent is of; it outlives the model
  ResidencyOptions residency;           // where packed weights are kept; `memory` is of all that load allocates
  Placement placement;                  // of packed weights that are all in memory
  // What stands between streamed weights and their reads: faults, in tests.
  std::function<std::unique_ptr<weights::Reads>(std::unique_ptr<weights::Reads>)> wrap_reads;
  // Called from the loading thread with bytes done and bytes in all.
  std::function<void(std::int64_t, std::int64_t)> progress;
};

class Model {
 public:
  // Checks every tensor against the file's specification, then packs the weights for the instruction set in use. Throws
  // Error. The file stays open for as long as the model lives, because tables that are no matrices are read from there.
  static std::unique_ptr<Model> load(std::unique_ptr<weights::ModelFile> file, Team& team, const LoadOptions& options);
  // The same with a specification that is not the file's own.
  static std::unique_ptr<Model> load(ModelSpec spec, std::unique_ptr<weights::ModelFile> file, Team& team,
                                     const LoadOptions& options);

  // Bytes of packed matrices and of vectors that `load` would allocate with everything in memory. Throws what
  // check_tensors does.
  static std::int64_t planned_bytes(const ModelSpec& spec, const weights::ModelFile& file, bool exact);
  // What `load` would do with these options. Throws what check_tensors and plan_residency do.
  static Residency plan(const ModelSpec& spec, const weights::ModelFile& file, bool exact,
                        const ResidencyOptions& options);

  // Bytes that `load` takes besides, while it runs. REQUIRES: planned_bytes took both.
  static std::int64_t planned_load_scratch(const ModelSpec& spec, const weights::ModelFile& file, bool exact,
                                           int threads);

  const ModelSpec& spec() const { return spec_; }
  const weights::ModelFile& file() const { return *file_; }

  // In this process's memory.
  std::int64_t weight_bytes() const {
    return static_cast<std::int64_t>(arena_.size() + vectors_.size()) + paged_.size() + layers_.buffer_bytes() +
           order_bytes_ + adapter_bytes_;
  }
  // Packed, where all are in memory; none where they are streamed or mapped.
  std::span<const std::byte> matrices() const { return {arena_.data(), arena_.size()}; }
  const Residency& residency() const { return residency_; }
  // For the one pass at a time that there may be where weights are streamed.
  LayerWeights& layers() const { return layers_; }
  std::int64_t parameters() const { return parameters_; }
  // Name of the type that holds most of the matrices' bytes in the file.
  const std::string& quant() const { return quant_; }
  // Read and done for one decoded token, attention aside: packed bytes of every matrix, of experts those that a token
  // uses, and 2 operations per weight.
  std::int64_t bytes_per_token() const { return shared_bytes_ + expert_bytes_; }
  std::int64_t ops_per_token() const { return 2 * matrix_weights_; }
  // Packed bytes of the matrices that every token uses.
  std::int64_t shared_bytes() const { return shared_bytes_; }

 private:
  friend class Loader;
  ModelSpec spec_;
  std::unique_ptr<weights::ModelFile> file_;
  tensor::Buffer arena_;       // all matrices, or
  weights::PageBuffer paged_;  // those that stay in memory
  Residency residency_;
  std::unique_ptr<MappedFile> mapped_;  // packed matrices, or null
  std::unique_ptr<KeptWeights> kept_;   // writes the arena to a file, or null
  mutable LayerWeights layers_;
  tensor::Buffer vectors_;        // norms and biases as floats
  std::int64_t order_bytes_ = 0;  // of orders of columns, which the file keeps
  std::int64_t adapter_bytes_ = 0;
  std::int64_t parameters_ = 0;
  std::int64_t shared_bytes_ = 0;
  std::int64_t expert_bytes_ = 0;    // that one token uses
  std::int64_t matrix_weights_ = 0;  // likewise
  std::string quant_;
};

// Throws Error(kBadInput) unless the file has the specification's tensors, in their shapes, and of others only those
// that change nothing (model/unused.hpp): what is missing, misshaped, unknown or of rows that its type cannot be
// multiplied in is reported together.
void check_tensors(const ModelSpec& spec, const weights::ModelFile& file, bool exact);

}  // namespace kvasir::model
