// Q4_K: x = (d s) u - (dmin t) with u of 4 bits, super-blocks of 256 (144 bytes).
#include "weights/families/k_scales.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : KScales<4> {};

}  // namespace

using Panels = kernel::KVASIR_TARGET::IntPanels<Format>;
static constexpr kernel::PanelFormat kPanel = Panels::format();
extern const Quant q4_k;
const Quant q4_k{.summary = "4-bit, 8 x 32 with 6-bit scales and minima",
                 .block = Format::kBlock,
                 .block_bytes = Format::kBlockBytes,
                 .fallback = "q5_0",
                 .dequantise = Panels::dequantise,
                 .quantise = Format::quantise,
                 .panel = &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
