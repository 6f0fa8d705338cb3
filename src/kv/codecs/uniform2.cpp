#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec uniform2;
const Codec uniform2 =
    TokenCodec<MidRise<2>, 32, true>::codec("2-bit bins, a scale per token and block of 32 channels");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
