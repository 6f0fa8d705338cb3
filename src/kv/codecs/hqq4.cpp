#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec hqq4;
const Codec hqq4 = TokenCodec<HalfQuadratic<4>, 64>::codec(
    "4-bit integers, a scale per token and group of 64 (or :32, :128) channels, the offset refined (HQQ)");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
