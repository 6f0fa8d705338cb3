// What presets with a share do: bytes are given to the layers, keys and values where they take away the most noise.
//
// Noise is what a stored number's error does to the output of attention, in the units of kv/auto_policy.hpp:
//   keys    gain * D, the variance of a score's noise; gain is the layer's
//   values  D
// D is the relative distortion of the codec. Beginning with the fewest bits, the step that takes away most noise per
// byte comes next, as long as one fits into the share.
#pragma once

#include <span>
#include <vector>

#include "kv/options.hpp"

namespace kvasir::kv {

// Below this share layers of which the model file says nothing are worth reading a text (run/calibration.hpp): at 2 to
// 3 bits, what it shows is worth a sixth of the KL.
inline constexpr double kReadsText = 0.20;

// Codecs of all layers, in runs. Layers with a window and layers without one keep within `share` of the bytes of f16
// each for themselves. Head sizes that cannot be rotated get f16. Does not depend on the instruction set.
// REQUIRES: a gain for each of the first layers, among which are all that attend; 0 < share.
std::vector<LayerCodecs> share_out(const CacheShape& shape, std::span<const double> gains, double share);

}  // namespace kvasir::kv
