// Q5_K: x = (d s) u - (dmin t) with u of 5 bits, super-blocks of 256 (176 bytes).
#include "weights/families/int_codes.hpp"
#include "weights/families/k_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : KScales<5> {};

}  // namespace

extern const Quant q5_k;
const Quant q5_k = of_codes<Format>(
    {.summary = "5-bit, 8 x 32 with 6-bit scales and minima", .fallback = "q5_1", .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
