// Row operations between the matrix products. Every row is computed alone and in one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

enum class RopePairs {
  kAdjacent,   // (2i, 2i+1): Llama
  kSplitHalf,  // (i, i + n_rot/2): GPT-NeoX, Qwen
};

// kXielu alone has parameters. It and kCappedSilu have no entry in the tables below; the latter has a gate (Inkling 2):
// 4 tanh(gate / 4) sigmoid(gate) * 25 tanh(up / 25).
enum class Activation {
  kSilu,
  kGeluTanh,
  kGeluErf,
  kRelu2,
  kSigmoid,
  kClampedSilu,
  kRelu,
  kSoftplus,
  kXielu,
  kCappedSilu
};
inline constexpr int kActivations = 8;

// xIELU (arXiv:2411.13010): positive x^2 + beta x for x > 0, else negative (e^min(x, eps) - 1 - x) + beta x.
struct Xielu {
  float positive = 0, negative = 0, beta = 0, eps = 0;
};

struct OpKernels {
  // out = x / sqrt(mean(x^2) + eps) * w, n elements; in place allowed.
  void (*rms_norm)(const float* x, const float* w, float* out, std::int64_t n, float eps);
  // out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * w + b, b may be null; in place allowed.
  void (*layer_norm)(const float* x, const float* w, const float* b, float* out, std::int64_t n, float eps);
  // x += y
  void (*add)(float* x, const float* y, std::int64_t n);
  // x *= factor
  void (*scale)(float* x, float factor, std::int64_t n);
  // x = cap * tanh(x / cap)
  void (*soft_cap)(float* x, float cap, std::int64_t n);
  // out = act(gate) * up, by Activation; in place allowed. silu(x) = x / (1 + exp(-x)); gelu_tanh(x) = x / 2 * (1 +
  // tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); gelu_erf(x) = x / 2 * (1 + erf(x / sqrt(2))); relu(x) = max(x, 0);
  // relu2(x) = relu(x)^2; sigmoid(x) = 1 / (1 + exp(-x)); softplus(x) = ln(1 + exp(x)). Clamped SiLU (gpt-oss, swiglu
  // of its reference code): with c = min(x, 7) it is c / (1 + exp(-1.702 c)), and what it is multiplied with is not up
  // but clamp(up, -7, 7) + 1.
  void (*gate[kActivations])(const float* gate, const float* up, float* out, std::int64_t n);
  // x = act(x)
  void (*activate[kActivations])(float* x, std::int64_t n);
  void (*xielu)(float* x, const Xielu& by, std::int64_t n);
  // Rotates the first 2 * pairs elements of one head; cos and sin have `pairs` elements.
  void (*rope)(float* head, const float* cos, const float* sin, std::int64_t pairs, RopePairs style);
};
KVASIR_DECLARE_KERNELS(OpKernels, ops)

}  // namespace kvasir::kernel
