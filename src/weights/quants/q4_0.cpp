// Q4_0: x = d (u - 8) with u of 4 bits, blocks of 32 (18 bytes).
#include "weights/families/int_codes.hpp"
#include "weights/families/nibble_blocks.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : NibbleBlocks<4, false> {};

}  // namespace

extern const Quant q4_0;
const Quant q4_0 = of_codes<Format>({.summary = "4-bit, blocks of 32, f16 scale", .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
