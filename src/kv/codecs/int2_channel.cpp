#include "kv/families/affine/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec int2_channel;
const Codec int2_channel =
    ChannelCodec<MinMax<2>>::codec("2-bit integers, a scale per channel and group of 32 (or :64, :128) tokens (KIVI)");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
