// Q4_0: x = d (u - 8) with u of 4 bits, blocks of 32 (18 bytes).
#include "weights/families/nibble_blocks.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : NibbleBlocks<4, false> {};

}  // namespace

using Panels = kernel::KVASIR_TARGET::IntPanels<Format>;
static constexpr kernel::PanelFormat kPanel = Panels::format();
extern const Quant q4_0;
const Quant q4_0{.summary = "4-bit, blocks of 32, f16 scale",
                 .block = Format::kBlock,
                 .block_bytes = Format::kBlockBytes,
                 .dequantise = Panels::dequantise,
                 .quantise = Format::quantise,
                 .panel = &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
