// Q4_1: x = d u + m with u of 4 bits, blocks of 32 (20 bytes).
#include "weights/families/nibble_blocks.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : NibbleBlocks<4, true> {};

}  // namespace

using Panels = kernel::KVASIR_TARGET::IntPanels<Format>;
static constexpr kernel::PanelFormat kPanel = Panels::format();
extern const Quant q4_1;
const Quant q4_1{.summary = "4-bit, blocks of 32, f16 scale and minimum",
                 .block = Format::kBlock,
                 .block_bytes = Format::kBlockBytes,
                 .dequantise = Panels::dequantise,
                 .quantise = Format::quantise,
                 .panel = &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
