// Which experts a row goes to, and how much of each it takes.
#pragma once

#include <cstdint>

namespace kvasir::kernel {

// What logits are turned into before experts are chosen by them.
enum class Gating {
  kSoftmax,          // over all experts
  kSigmoid,          // of each by itself
  kSoftmaxOfChosen,  // chosen by the logits; over the chosen ones
  // Two experts (SparseMixer, arXiv:2409.12136): the best and the best of the others, each by the softmax over those
  // that were left to choose from and whose logits x are near its own, (top - x) / max(|x|, top) <= 2 jitter.
  kSparseMixer,
};

inline constexpr int kMostUsed = 64;    // experts of a row
inline constexpr int kMostGroups = 64;  // of experts

struct Routing {
  int count = 0;  // experts
  int used = 0;   // by each row; at most kMostUsed
  Gating gating = Gating::kSoftmax;
  bool normalise = false;  // the weights of a row's experts are divided by their sum, or by 2^-14 if it is less
  float scale = 1.0f;      // of weights, last
  // Experts lie in this many groups of one size; a row's are chosen from the `groups_used` groups of the greatest sum
  // of their `group_best` greatest gating(logits) + bias. 1: all are in one.
  int groups = 1;
  int groups_used = 1;
  int group_best = 1;   // 1 or 2
  float jitter = 0.0f;  // of kSparseMixer, which reads no more than `count` beside it; `used` is 2
};

// Chooses for one row the `used` experts of the greatest gating(logits) + bias (of the greatest logits + bias where
// gating is over the chosen) and gives their gating(logits) as weights; `bias` may be null. Of equal ones the first is
// taken. Experts are given in ascending order. In plain C++, so that all instruction sets choose alike.
void route(const Routing& rule, const float* logits, const float* bias, std::int32_t* experts, float* weights);

}  // namespace kvasir::kernel
