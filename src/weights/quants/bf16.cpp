// BF16: kept as it is, computed in float, or with activations in bf16 where that is twice as fast.
#include "weights/families/halves.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

using Rows = HalfRows<Half::kBrain>;
extern const Quant bf16;
const Quant bf16{.summary = "bfloat16",
                 .block = 1,
                 .block_bytes = 2,
                 .dequantise = Rows::dequantise,
                 .quantise = Rows::quantise,
                 .panel = &kernel::KVASIR_TARGET::dense_panels_table.bf16,
                 .pairs = &kernel::KVASIR_TARGET::dense_panels_table.bf16_pairs,
                 .rounded = &kernel::KVASIR_TARGET::dense_panels_table.bf16_rounded};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
