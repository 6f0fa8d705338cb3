// The packed matrices of a model in bundles: those that a step uses together, which lie behind each other in memory and
// in files. A bundle of experts has all matrices of one expert side by side, so that it can be read alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/spec.hpp"

namespace kvasir::model {

enum class BundleKind { kMixer, kFeed, kExperts, kOther };  // kOther: of no layer

struct Bundle {
  int layer = -1;  // -1: none
  BundleKind kind = BundleKind::kOther;
  std::vector<Linear*> linears = {};
  std::vector<Stack*> stacks = {};
  int used = 0;      // of experts: by one token
  int same_as = -1;  // an earlier bundle, whose bytes these are (LayerSpec::weights_of); -1: it has its own

  // Parts that can be had alone: experts, else one.
  std::int64_t count() const { return kind == BundleKind::kExperts ? stacks.front()->count : 1; }
  // Of one of them. REQUIRES: matrices have their format and shape.
  std::int64_t part_bytes() const;
  // Points the matrices to their places, if part i lies at base + i * stride.
  void bind(const std::byte* base, std::int64_t stride) const;
  // The same with every part at places[i]. REQUIRES: experts.
  void bind(const std::byte* const* places) const;
};

// In the order of use, one for every pass of a layer, those of no layer last, without what is lent. Point into `spec`.
std::vector<Bundle> bundles_of(ModelSpec& spec);

constexpr std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace kvasir::model
