#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec uniform4;
const Codec uniform4 =
    TokenCodec<MidRise<4>, 128, true>::codec("4-bit bins, a scale per token and block of 128 channels");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
