// Q4_K: x = (d s) u - (dmin t) with u of 4 bits, super-blocks of 256 (144 bytes).
#include "weights/families/int_codes.hpp"
#include "weights/families/k_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : KScales<4> {};

}  // namespace

extern const Quant q4_k;
const Quant q4_k = of_codes<Format>(
    {.summary = "4-bit, 8 x 32 with 6-bit scales and minima", .fallback = "q5_0", .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
