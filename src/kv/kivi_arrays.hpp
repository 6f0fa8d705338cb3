// KIVI's arrays (Liu et al. 2024, arXiv 2402.02750), as export and comparison have them: codes in the order of tokens
// or channels, scales and minima beside them. Pages of the cache hold the same numbers in another order
// (kv/families/affine).
//
// A matrix (depth, lanes) per head, keys: depth channels, lanes tokens; values: depth tokens, lanes channels. For each
// `group` lanes of a row, in float32 with every step rounded to nearest:
//   s = (max - min) / (2^bits - 1)   m = min + 0, both stored in `kind`
//   code = round((x - m) / s), half to even, within [0, 2^bits - 1]; 0 where s is 0
//   number = code * s + m
// multiply: products with number, added to 0 one after the other in blocks of kMultiplyDepth rows, the blocks' sums in
// order. Who computes these (a device) has the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvasir::kv {

inline constexpr std::int64_t kMultiplyDepth = 256;

struct KiviArrays {
  bool values = false;
  bool wide = false;  // scales and minima are float32, else IEEE halves
  int bits = 2;       // 2, 4, 8; the first code of a byte is in its lowest bits
  std::int64_t group = 32;
  std::int64_t heads = 0;  // of the batch together
  std::int64_t tokens = 0;
  std::int64_t head_dim = 0;
  std::byte* codes = nullptr;   // (heads, depth, lanes * bits / 8)
  std::byte* scales = nullptr;  // (heads, depth, lanes / group)
  std::byte* minima = nullptr;  // the same

  std::int64_t depth() const { return values ? tokens : head_dim; }
  std::int64_t lanes() const { return values ? head_dim : tokens; }
  std::int64_t groups() const { return lanes() / group; }
  std::size_t float_bytes() const { return wide ? 4 : 2; }
  // Bytes and numbers of one head.
  std::size_t code_bytes() const { return static_cast<std::size_t>(depth() * lanes() * bits / 8); }
  std::size_t scale_bytes() const { return static_cast<std::size_t>(depth() * groups()) * float_bytes(); }
  std::size_t numbers() const { return static_cast<std::size_t>(depth() * lanes()); }
  // The arrays of heads [first, first + n).
  KiviArrays part(std::int64_t first, std::int64_t n) const;
};

// Throws Error(kBadInput): sizes that do not fit each other, null pointers.
void require_arrays(const KiviArrays& a);
// Throws Error(kBadInput): a number that is not finite.
void require_finite(const float* x, std::size_t count, const char* name);
// Throws Error(kBadInput): a scale or a minimum that is not finite. What quantize has made is so where a group's
// numbers reach beyond float16.
void require_scales(const KiviArrays& a, const char* why);

// Computes them. x: (heads, tokens, head_dim). a: (heads, rows, depth), out: (heads, rows, lanes).
class KiviMaker {
 public:
  virtual ~KiviMaker() = default;
  virtual std::string name() const = 0;
  // Throw Error(kBadInput) for what the caller can get wrong, and what a device throws.
  void quantize(const float* x, const KiviArrays& to);
  void dequantize(const KiviArrays& from, float* x);
  void multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out);

 protected:
  // Checked, with heads > 0, tokens > 0 and rows > 0.
  virtual void do_quantize(const float* x, const KiviArrays& to) = 0;
  virtual void do_dequantize(const KiviArrays& from, float* x) = 0;
  virtual void do_multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out) = 0;
};

// The processor, in the calling thread.
class HostKivi final : public KiviMaker {
 public:
  std::string name() const override { return "cpu"; }

 protected:
  void do_quantize(const float* x, const KiviArrays& to) override;
  void do_dequantize(const KiviArrays& from, float* x) override;
  void do_multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out) override;
};

}  // namespace kvasir::kv
