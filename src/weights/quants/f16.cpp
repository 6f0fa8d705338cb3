// F16: kept as it is, computed in float, or as bf16 where that is twice as fast.
#include "weights/families/halves.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

using Rows = HalfRows<Half::kIeee>;
extern const Quant f16;
const Quant f16{.summary = "16-bit float",
                .block = 1,
                .block_bytes = 2,
                .dequantise = Rows::dequantise,
                .quantise = Rows::quantise,
                .panel = &kernel::KVASIR_TARGET::dense_panels_table.f16,
                .pairs = &kernel::KVASIR_TARGET::dense_panels_table.f16_pairs,
                .rounded = &kernel::KVASIR_TARGET::dense_panels_table.f16_rounded};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
