// MLX's affine codes of 8 bits, and others that fit: x = s u + b, blocks of 64 (72 bytes).
#include "weights/families/affine_codes.hpp"
#include "weights/families/int_codes.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

extern const Quant affine8;
const Quant affine8 = of_codes<AffineCodes<8>>(
    {.summary = "8-bit of MLX: blocks of 64, f32 scale and bias", .quantise = AffineCodes<8>::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
