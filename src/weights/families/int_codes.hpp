// What the entries of weights/quants with integer codes share: all that follows from the format of a block.
#pragma once

#include "kernel/int_panels.hpp"
#include "kernel/rounded_products.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

template <class Format>
inline constexpr kernel::PanelFormat kPanelOf = kernel::KVASIR_TARGET::IntPanels<Format>::format();
template <class Format>
inline constexpr kernel::PanelFormat kRoundedOf = kernel::KVASIR_TARGET::rounded<kPanelOf<Format>>();

// `entry` with the sizes and the panel of Format (kernel/int_planes.hpp says what it holds), and with dequantise where
// it has none.
template <class Format>
constexpr Quant of_codes(Quant entry) {
  entry.block = Format::kBlock;
  entry.block_bytes = Format::kBlockBytes;
  if (!entry.dequantise) entry.dequantise = kernel::KVASIR_TARGET::IntPanels<Format>::dequantise;
  entry.panel = &kPanelOf<Format>;
  entry.rounded = &kRoundedOf<Format>;
  return entry;
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
