// Q5_1: x = d u + m with u of 5 bits, blocks of 32 (24 bytes).
#include "weights/families/int_codes.hpp"
#include "weights/families/nibble_blocks.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : NibbleBlocks<5, true> {};

}  // namespace

extern const Quant q5_1;
const Quant q5_1 =
    of_codes<Format>({.summary = "5-bit, blocks of 32, f16 scale and minimum", .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
