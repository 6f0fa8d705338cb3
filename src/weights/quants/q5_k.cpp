// Q5_K: x = (d s) u - (dmin t) with u of 5 bits, super-blocks of 256 (176 bytes).
#include "weights/families/k_scales.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : KScales<5> {};

}  // namespace

using Panels = kernel::KVASIR_TARGET::IntPanels<Format>;
static constexpr kernel::PanelFormat kPanel = Panels::format();
extern const Quant q5_k;
const Quant q5_k{.summary = "5-bit, 8 x 32 with 6-bit scales and minima",
                 .block = Format::kBlock,
                 .block_bytes = Format::kBlockBytes,
                 .fallback = "q5_1",
                 .dequantise = Panels::dequantise,
                 .quantise = Format::quantise,
                 .panel = &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
