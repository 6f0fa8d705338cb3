// KIVI's arrays (Liu et al. 2024, arXiv 2402.02750) on the processor or on a device, with the same bits: codes
// of 2, 4 or 8 bits, a scale and a minimum beside each group; keys in groups of tokens within a channel, values in
// groups of channels within a token. For export, comparison and code that was written for them; KvCache with the codecs
// "kivi2" and "kivi4" attends on the same numbers in pages.
//
//   kvasir::Kivi kivi("opencl:0");                                     // or "cpu", "gpu", "xpu", "cuda"
//   kvasir::KiviArrays keys{.heads = batch * heads, .tokens = 256, .head_dim = 128,
//                           .codes = codes, .scales = scales, .minima = minima};
//   kivi.quantize(k, keys);                                            // k [heads][tokens][head_dim]
//   kivi.multiply(q, rows, keys, scores);                              // q [heads][rows][head_dim]
//
// What is computed, in float32, every step rounded to nearest, the processor and all devices alike:
//   scale = (max - min) / (2^bits - 1), minimum = min; both are then rounded to `float32_scales` or float16
//   code = (x - minimum) / scale, rounded half to even, 0 to 2^bits - 1; number = code * scale + minimum
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kvasir {

// Arrays are dense and row-major and the caller's. depth and lanes: keys head_dim and tokens, values tokens and
// head_dim.
struct KiviArrays {
  bool values = false;
  bool float32_scales = false;  // else IEEE halves
  int bits = 2;                 // 2, 4, 8
  std::int64_t group = 32;      // lanes that share a scale; a multiple of 4 that divides them
  std::int64_t heads = 0;       // of the batch together
  std::int64_t tokens = 0;
  std::int64_t head_dim = 0;
  void* codes = nullptr;   // [heads][depth][lanes * bits / 8] bytes, the first lane in the lowest bits
  void* scales = nullptr;  // [heads][depth][lanes / group]
  void* minima = nullptr;  // the same
};

// Any number of threads. Throws std::invalid_argument for what the caller can get wrong: sizes that do not fit, null
// pointers, numbers that are not finite, groups that reach beyond float16. std::runtime_error: the device is not there,
// cannot be used, has other bits (which is tried before its first use), has no memory or was lost.
class Kivi {
 public:
  // device: cpu (the calling thread), gpu, xpu, cuda, opencl or opencl:N (`kvasir devices` lists them), or sycl,
  // sycl:NAME with the plug-in that `./dev sycl` builds.
  explicit Kivi(const std::string& device = "cpu");
  ~Kivi();
  Kivi(Kivi&&) noexcept;
  Kivi& operator=(Kivi&&) noexcept;

  std::string device() const;  // "cpu", or the name of the device that was found

  // x [heads][tokens][head_dim].
  void quantize(const float* x, const KiviArrays& to);
  void dequantize(const KiviArrays& from, float* x);
  // out [heads][rows][lanes] = a [heads][rows][depth] times the numbers: q K^T of keys, p V of values, without unpacked
  // arrays. Query heads that share keys are rows. Nothing is scaled.
  void multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir
