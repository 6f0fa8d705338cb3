// Layers with a state: convolutions of the last rows, and matrices that every token decays and adds to. Every channel,
// and every column of a state, is computed alone, token after token, so results do not depend on how the tokens came.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

// out (count, channels) = bias + sum over j < taps of weights[j] * rows[i + j], j from 0 on; then silu where it is
// asked.
struct ConvolutionRows {
  const float* const* rows;  // (count + taps - 1), oldest first, each at the first channel
  std::int64_t count;
  int taps;
  const float* weights;  // (taps, weights_pitch), at the first channel
  std::int64_t weights_pitch;
  const float* bias;  // (channels) or null
  std::int64_t channels;
  bool silu;
  float* out;
  std::int64_t out_pitch;
};

// A state S (key_dim, state_pitch) of one head goes through `count` tokens. S <- decay S, then S <- S + k uᵀ with
// u = strength v or, with `delta`, strength (v - Sᵀk), S decayed already; out = Sᵀq + skip v. Sums over keys are those
// of the even ones plus those of the odd ones, each in order. `by_key`: every row of S has a decay of its own.
struct StateRows {
  std::int64_t count;
  std::int64_t key_dim;      // even
  std::int64_t value_dim;    // columns from there to state_pitch hold zeros
  std::int64_t state_pitch;  // a multiple of 16
  const float *q, *k;        // (count, key_pitch)
  std::int64_t key_pitch;
  const float* v;  // (count, value_pitch)
  std::int64_t value_pitch;
  const float *decay, *strength;  // one a token, gate_pitch apart; decays (key_dim) a token with `by_key`
  std::int64_t gate_pitch;
  bool delta;
  float skip;
  float* state;
  float* out;  // (count, out_pitch); null: the state alone is wanted
  std::int64_t out_pitch;
  bool by_key = false;
};

// Some columns of the state S (key_dim, state_pitch) of a selective scan (Mamba, arXiv:2312.00752, algorithm 2) go
// through `count` tokens: S[i] <- exp(step rates[i]) S[i] + k[i] (step v) in every column, out = sum over i of
// q[i] S[i] + skip v. Every column has steps, rates and a skip of its own. Sums over i as of StateRows.
struct ScanRows {
  std::int64_t count;
  std::int64_t key_dim;      // even
  std::int64_t value_dim;    // columns from there to state_pitch hold zeros
  std::int64_t state_pitch;  // a multiple of 16
  const float* v;            // (count, value_pitch)
  std::int64_t value_pitch;
  const float* steps;  // (count, gate_pitch), at the first column
  const float *k, *q;  // (count, gate_pitch): key_dim of each a token
  std::int64_t gate_pitch;
  const float* rates;  // (key_dim, rates_pitch), at the first column
  std::int64_t rates_pitch;
  const float* skip;  // (value_dim)
  float* state;
  float* out;  // (count, out_pitch); null: the state alone is wanted
  std::int64_t out_pitch;
};

struct RecurrenceKernels {
  void (*convolve)(const ConvolutionRows& c);
  // Rows of n elements: x = factor * x / max(|x|, least), |x| the Euclidean length.
  void (*normalise)(float* x, std::int64_t count, std::int64_t n, std::int64_t pitch, float least, float factor);
  void (*update)(const StateRows& r);
  void (*scan)(const ScanRows& r);
  void (*softplus)(float* x, std::int64_t n);  // ln(1 + e^x)
  // x = e^(factor softplus(x)), or with a floor that is not 0 e^(floor sigmoid(factor x)).
  void (*forget)(float* x, std::int64_t n, float factor, float floor);
};

KVASIR_DECLARE_KERNELS(RecurrenceKernels, recurrence)

}  // namespace kvasir::kernel
