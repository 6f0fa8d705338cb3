// Q5_0: x = d (u - 16) with u of 5 bits, blocks of 32 (22 bytes).
#include "weights/families/int_codes.hpp"
#include "weights/families/nibble_blocks.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : NibbleBlocks<5, false> {};

}  // namespace

extern const Quant q5_0;
const Quant q5_0 = of_codes<Format>({.summary = "5-bit, blocks of 32, f16 scale", .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
