// Contract of an entry in weights/quants: one number format of weights, whatever file it comes from.
//
// Each file in weights/quants is compiled once per instruction set (cmake/isa.cmake) and defines
//   namespace kvasir::weights::entries::quants::KVASIR_TARGET { extern const Quant <stem>; }
// `dequantise` and `quantise` work on a row as the file has it, the functions of `panel` on rows packed for products
// (kernel/matmul.hpp). A type of integer codes describes its blocks in a struct and takes both from
// kernel::IntPanels<that struct> by of_codes (weights/families/int_codes.hpp; kernel/int_planes.hpp says what the
// struct holds); weights/families has what several types share. Numbers that a file format gives to types are that
// format's: weights/gguf_types.cpp has those of ggml. `kvasir quantize` writes every type that GGUF files can be mostly
// of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/registry.hpp"
#include "kernel/matmul.hpp"
#include "simd/bf16_products.hpp"

namespace kvasir::weights {

struct Quant {
  const char* summary;
  int block;        // elements per block; a row holds whole blocks
  int block_bytes;  // bytes per block in the file
  // Elements that share a code: vectors of a grid. 1: every element has its own, so what is rounded again stays as it
  // is.
  int together = 1;
  // The type that a model of this one uses for rows whose length `block` does not divide, by the name of its entry.
  const char* fallback = "f16";
  // Numbers in GGUF files of a type that ggml does not number: of its tensors, and of files that are mostly this type.
  // -1: weights/gguf_types.cpp has them, or there are none.
  std::int32_t gguf_type = -1, gguf_file_type = -1;

  // One row between the file's bytes and floats; n is a multiple of `block`. `dequantise` is exact (the definition of
  // the format); `quantise` rounds to nearest with a per-block scale, good enough for synthetic models and tests.
  void (*dequantise)(const std::byte* row, float* out, std::int64_t n);
  void (*quantise)(const float* row, std::byte* out, std::int64_t n);

  const kernel::PanelFormat* panel;  // packed layout and its kernels
  // The same around the bf16 dot product; null for formats that have none. Sets with simd::multiplies_bf16 use it.
  const kernel::PanelFormat* pairs = nullptr;
  // `panel`, whose weights are rounded to bf16 when they are multiplied (kernel/rounded_products.hpp), for models that
  // ask for this arithmetic; null: they are multiplied as without.
  const kernel::PanelFormat* rounded = nullptr;

  const kernel::PanelFormat& format() const { return pairs && simd::multiplies_bf16(simd::active()) ? *pairs : *panel; }
};

// Every weight format, for the instruction set in use.
std::span<const Entry<Quant>> quants();

}  // namespace kvasir::weights
