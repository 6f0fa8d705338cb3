#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec int4_token;
const Codec int4_token = TokenCodec<MinMax<4>, 32>::codec(
    "4-bit integers, a scale per token and group of 32 (or :64, :128) channels (KIVI, quanto)");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
