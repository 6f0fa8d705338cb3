#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec int2_token;
const Codec int2_token = TokenCodec<MinMax<2>, 32>::codec(
    "2-bit integers, a scale per token and group of 32 (or :64, :128) channels (KIVI, quanto)");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
