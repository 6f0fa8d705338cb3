// A loaded model: hyper-parameters and packed weights, bound by the architecture's table.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/team.hpp"
#include "kernel/matmul.hpp"
#include "model/config.hpp"
#include "tensor/buffer.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

// One packed matrix inside the model's weight arena.
struct Matrix {
  const kernel::PanelFormat* format = nullptr;  // nullptr: the tensor is absent
  const std::byte* panels = nullptr;
  std::int64_t rows = 0, k = 0;
  std::int64_t panel_bytes = 0;

  std::int64_t panel_count() const { return (rows + kernel::kPanelRows - 1) / kernel::kPanelRows; }
  std::int64_t bytes() const { return panel_count() * panel_bytes; }
};

struct Layer {
  Matrix q, k, v, o, gate, up, down;
  // Vectors; nullptr where the architecture has none.
  const float* attn_norm = nullptr;
  const float* ffn_norm = nullptr;
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
};

struct LoadOptions {
  bool exact = false;  // all matrices as dequantised floats: the reference path, 4 bytes per weight
  // Whether F16 and BF16 weights are multiplied as bf16 where that is faster (simd::Isa::kAvx512Bf16). Measurements of
  // small differences do without: roundings that differ by chance look like differences.
  bool bf16_products = true;
  // Called from the loading thread with bytes done and bytes in all.
  std::function<void(std::int64_t, std::int64_t)> progress;
};

class Model {
 public:
  // Checks every tensor against the architecture's table (missing, unknown and misshaped ones are reported together),
  // then packs the weights for the instruction set in use. Throws Error. The file stays open for as long as the model
  // lives when token_embd is not tied to the output, because its rows are read from there.
  static std::unique_ptr<Model> load(std::unique_ptr<weights::ModelFile> file, Team& team, const LoadOptions& options);

  // Bytes of packed matrices that `load` would allocate, from the tensors' shapes.
  static std::int64_t planned_bytes(const weights::ModelFile& file, bool exact);

  const Config& config() const { return config_; }
  const weights::ModelFile& file() const { return *file_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Matrix& output() const { return output_; }
  const float* output_norm() const { return output_norm_; }

  // Row `id` of token_embd as floats. REQUIRES: 0 <= id < vocab.
  void embed(std::int32_t id, float* out) const;

  std::int64_t weight_bytes() const { return static_cast<std::int64_t>(arena_.size() + vectors_.size()); }
  std::int64_t parameters() const { return parameters_; }
  // Name of the type that holds most of the matrices' bytes in the file.
  const std::string& quant() const { return quant_; }
  // Read and done for one decoded token, attention aside: packed bytes of every matrix, and 2 operations per weight.
  std::int64_t bytes_per_token() const { return matrix_bytes_; }
  std::int64_t ops_per_token() const { return 2 * matrix_weights_; }

 private:
  friend class Loader;
  Config config_;
  std::unique_ptr<weights::ModelFile> file_;
  tensor::Buffer arena_;    // all matrices
  tensor::Buffer vectors_;  // norms and biases as floats
  std::vector<Layer> layers_;
  Matrix output_;
  const float* output_norm_ = nullptr;
  const weights::TensorInfo* embd_ = nullptr;  // nullptr when tied
  void (*embd_dequantise_)(const std::byte*, float*, std::int64_t) = nullptr;
  std::int64_t embd_row_bytes_ = 0;
  std::int64_t parameters_ = 0;
  std::int64_t matrix_bytes_ = 0;
  std::int64_t matrix_weights_ = 0;
  std::string quant_;
};

}  // namespace kvasir::model
