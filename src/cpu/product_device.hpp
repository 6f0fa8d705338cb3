// A device beside the processor that multiplies packed matrices with rows of prompts, with the processor's bits. The
// host has every matrix and all rows, so the device may refuse or be lost at any time: then the host multiplies.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cpu/matrix.hpp"

namespace kvasir::cpu {

struct ProductDeviceStats {
  std::string name;               // "NVIDIA H200"; empty: there is none
  std::string lost;               // why it multiplies no longer; empty: it does
  std::string note;               // how it was decided from which rows on it is used
  int from_rows = 0;              // of a step; 0: it is never used
  std::int64_t most_weights = 0;  // bytes of weights that it has room for
  std::int64_t held_weights = 0;  // bytes that stay there
  std::uint64_t uploaded_bytes = 0;
  std::uint64_t ahead_bytes = 0;  // of these, weights that were copied before they were asked for
  std::uint64_t products = 0;     // of a matrix with rows
  std::uint64_t refused = 0;      // products of enough rows that were left to the host
  double seconds = 0;             // that the host waited
};

class ProductDevice {
 public:
  virtual ~ProductDevice() = default;

  // Steps of fewer rows are the host's, whatever the matrix.
  virtual int from_rows() const noexcept = 0;
  // Whether multiply will take the matrix: its type and its size.
  virtual bool takes(const Matrix& m) const noexcept = 0;

  // outs[i], (x[i]->n, rows of matrices[i]) = matrices[i] times x[i]; inputs that are alike are one pointer. What a
  // matrix's panels hold is a function of its address alone, although they may lie elsewhere the next time. again: the
  // next call has the same matrices and other rows. false: the device is lost for good, takes nothing any more, and
  // what `outs` hold is the host's to write. By one thread at a time. REQUIRES: takes() every matrix.
  virtual bool multiply(std::span<const Matrix* const> matrices, std::span<const kernel::Activations* const> x,
                        std::span<float* const> outs, bool again) noexcept = 0;

  virtual ProductDeviceStats stats() const = 0;
};

}  // namespace kvasir::cpu
