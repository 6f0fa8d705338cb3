// Contract of an entry in weights/quants: one number format of weights.
//
// Each file in weights/quants is compiled once per instruction set (simd/target.hpp) and defines
//   extern const Quant KVASIR_TARGET::<stem>;
// The scalar functions work on the file's rows; the packed ones on panels (kernel/panel.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/registry.hpp"
#include "kernel/matmul.hpp"

namespace kvasir::weights {

struct Quant {
  const char* summary;
  int ggml_type;    // number of the type in GGUF files
  int file_type;    // GGUF general.file_type of a file that is mostly this type
  int block;        // elements per block; a row holds whole blocks
  int block_bytes;  // bytes per block in the file

  // One row between the file's bytes and floats; n is a multiple of `block`. `dequantise` is exact (the definition of
  // the format); `quantise` rounds to nearest with a per-block scale, good enough for synthetic models and tests.
  void (*dequantise)(const std::byte* row, float* out, std::int64_t n);
  void (*quantise)(const float* row, std::byte* out, std::int64_t n);

  const kernel::PanelFormat* panel;  // packed layout and its kernels
  // The same around the bf16 dot product; null for formats that have none. simd::Isa::kAvx512Bf16 uses it.
  const kernel::PanelFormat* pairs = nullptr;

  const kernel::PanelFormat& format() const {
    return pairs && simd::active() == simd::Isa::kAvx512Bf16 ? *pairs : *panel;
  }
};

// Every weight format, for the instruction set in use.
std::span<const Entry<Quant>> quants();

}  // namespace kvasir::weights
