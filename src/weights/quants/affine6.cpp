// MLX's affine codes of 6 bits, and others that fit: x = s u + b, blocks of 64 (56 bytes).
#include "weights/families/affine_codes.hpp"
#include "weights/families/int_codes.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

extern const Quant affine6;
const Quant affine6 = of_codes<AffineCodes<6>>(
    {.summary = "6-bit of MLX: blocks of 64, f32 scale and bias", .quantise = AffineCodes<6>::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
