#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec int4_channel;
const Codec int4_channel =
    ChannelCodec<MinMax<4>>::codec("4-bit integers, a scale per channel and group of 32 (or :64, :128) tokens (KIVI)");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
