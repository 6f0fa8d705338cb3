// Arithmetic of attention: partial softmax states and matrix products on tiles of one page.
//
// A state of a row is {max, sum, out}: over some tokens, max of the scores, sum of 2^(score - max), and the same
// weighted sum of value rows. Scores are in units of ln 2, because queries are scaled by log2(e) besides: a power of
// two takes a quarter fewer operations than one of e. States of disjoint token sets merge to the state of their union
// (Rabe and Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135). The empty state is {-inf, 0, 0}; it
// merges without NaN.
//
// All kernels work row by row in one fixed order: a row's bits do not depend on its neighbours or on the tile shape.
#pragma once

#include <cstddef>

#include "simd/isa.hpp"

namespace kvasir::kernel {

inline constexpr int kTileTokens = 128;  // tokens of a tile: one page
inline constexpr int kTilePanel = 64;    // columns of a panel, see kv/codec.hpp
inline constexpr float kLog2E = 1.44269504f;

// Channels of an output row in scratch: d rounded up to a vector.
constexpr int out_pitch(int d) { return (d + 15) / 16 * 16; }

// States of consecutive rows: max[r], sum[r], out[r * pitch + c].
struct States {
  float* max;
  float* sum;
  float* out;
};

struct AttentionKernels {
  // out = scale * log2(e) * q for `rows` rows of d floats; row r at q + r * stride, result contiguous.
  void (*scale_rows)(const float* q, std::ptrdiff_t stride, int rows, int d, float scale, float* out);

  // s (rows, 128) = q (rows, d) times a K tile. Row r needs tokens [0, ends[r]); others may stay unwritten.
  void (*scores)(const float* q, int rows, int d, const float* k_tile, const int* ends, float* s);

  // scores[r * stride + t], t in [0, 128), become cap tanh(score / cap), cap > 0 in units of the unscaled scores.
  void (*cap)(float* scores, int stride, int rows, float cap);

  // Turns scores[r * stride + t], t in [begins[r], ends[r]), into weights 2^(score - max), and all other t in [0, 128)
  // into 0. Writes max[r] (-inf when nothing is visible) and sum[r].
  void (*weigh)(float* scores, int stride, int rows, const int* begins, const int* ends, float* max, float* sum);

  // Merges one page into `into`: its states {page_max, page_sum} with weights (rows, 128) against a V tile, tokens
  // [begin, ends[r]).
  void (*fold_tile)(const float* weights, int rows, int d, const float* v_tile, int begin, const int* ends,
                    const float* page_max, const float* page_sum, const States& into);

  // into = merge(into, other), rows by rows.
  void (*fold)(int rows, int d, const States& other, const States& into);

  // Sets rows to the empty state.
  void (*clear)(int rows, int d, const States& states);

  // Row r of the answer, d floats at out + r * stride: out / sum (0 when sum is 0).
  void (*finish)(int rows, int d, const States& states, float* out, std::ptrdiff_t stride);
};

KVASIR_DECLARE_KERNELS(AttentionKernels, attention)

}  // namespace kvasir::kernel
