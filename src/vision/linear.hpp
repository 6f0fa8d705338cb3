// Matrices and vectors of a picture encoder's file, and products with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/team.hpp"
#include "cpu/matrix.hpp"
#include "kernel/bidirectional.hpp"
#include "kernel/ops.hpp"
#include "tensor/buffer.hpp"
#include "vision/encoder.hpp"
#include "weights/model_file.hpp"

namespace kvasir::vision {

// out = W x + b
struct Linear {
  cpu::Matrix matrix;
  tensor::Buffer panels;
  std::vector<float> bias;  // empty: none
};

struct Norm {
  std::vector<float> weight, bias;  // of an RMS norm there is no bias
  float eps = 0;
};

enum class Bias { kNone, kHas };

// What an encoder reads of its file. Every function throws Error(kBadInput) naming file and tensor when it is missing
// or has another shape.
class Reader {
 public:
  Reader(const weights::ModelFile& file, Team& team, const EncoderOptions& options)
      : file_(file), team_(team), exact_(options.exact), eight_bits_(options.eight_bits && !options.exact) {}

  const weights::Metadata& metadata() const { return file_.metadata(); }
  const weights::ModelFile& file() const { return file_; }
  const weights::TensorInfo& tensor(const std::string& name) const;
  [[noreturn]] void fail(const std::string& tensor, const std::string& why) const;

  // All of a tensor as floats, in the file's order.
  std::vector<float> floats(const std::string& name, std::int64_t elements) const;
  // name.weight (columns, rows) and name.bias (rows).
  Linear linear(const std::string& name, std::int64_t rows, std::int64_t columns, Bias bias) const {
    return linear(name, rows, columns, bias, rows, columns);
  }
  // The same, filled up with zeros to (filled_rows, filled_columns).
  Linear linear(const std::string& name, std::int64_t rows, std::int64_t columns, Bias bias, std::int64_t filled_rows,
                std::int64_t filled_columns) const;
  // What `width` must be filled up to, so that matrices with so many columns are multiplied in integers where options
  // want that.
  std::int64_t filled(std::int64_t width) const { return eight_bits_ ? (width + 31) / 32 * 32 : width; }
  // How rows attend to each other: floats, or bf16 where matrices of 16 bits are multiplied so.
  void (*attention() const)(const kernel::WholeHead& head, float* scratch);
  // Of (rows, columns) floats that lie in the file otherwise; without bias.
  Linear linear_of(const std::vector<float>& weights, std::int64_t rows, std::int64_t columns) const;
  Norm layer_norm(const std::string& name, std::int64_t width, float eps) const;
  Norm rms_norm(const std::string& name, std::int64_t width, float eps) const;

 private:
  Linear pack(const weights::TensorInfo* t, const float* weights, std::int64_t rows, std::int64_t columns) const;

  const weights::ModelFile& file_;
  Team& team_;
  const bool exact_, eight_bits_;
};

// Rows through matrices and norms, shared out over a team. Results do not depend on how.
class RowWork {
 public:
  explicit RowWork(Team& team) : team_(team) {}

  Team& team() const { return team_; }
  // x (n, columns) to out (n, rows). x and out differ.
  void multiply(const Linear& m, const float* x, std::int64_t n, float* out);
  // f(row) for rows 0 to n - 1, by all threads.
  void each(std::int64_t n, FunctionRef<void(std::int64_t)> f) const;
  void norm(const Norm& norm, const float* x, float* out, std::int64_t n) const;  // in place allowed
  // In place, n rows.
  void activate(kernel::Activation activation, float* x, std::int64_t n, std::int64_t width) const;
  void add(float* x, const float* y, std::int64_t n, std::int64_t width) const;

 private:
  Team& team_;
  tensor::Buffer prepared_;
};

}  // namespace kvasir::vision
