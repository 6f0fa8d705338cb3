// Products of weights and activations that are both rounded to bf16, in the order in which AMX's TDPBF16PS adds. So the
// matrix unit and multiply-adds of floats give the same bits, and a column alone has those that it has among others.
//
// Of every 32 elements of K the products with an even index are added up from 0 in float32, each with one rounding
// (FMA), and so are those with an odd one; the two sums are added, and that is added to what the elements before gave.
// What is below the smallest normal number counts as 0 everywhere (Intel's manual, volume 2, TDPBF16PS: DAZ and FTZ,
// rounding to nearest even); of weights before they are rounded. A K that 32 does not divide is filled up with zeros.
#pragma once

#include <cstdint>

#include "kernel/matmul.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

// The panels of args are `source`'s, whose weights are dequantised and rounded as they are needed: once for all
// columns. REQUIRES: args.x of kind kRounded; source.unpack.
void multiply_rounded(const MatmulArgs& args, const PanelFormat& source);

// `source`'s panels, multiplied so. For constants of each format.
template <const PanelFormat& source>
constexpr PanelFormat rounded() {
  PanelFormat format = source;
  format.activation = ActivationKind::kRounded;
  format.matmul = [](const MatmulArgs& args) { multiply_rounded(args, source); };
  return format;
}

}  // namespace kvasir::kernel::KVASIR_TARGET
