#include "kv/families/rotated/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec rq8;
const Codec rq8 = Rotated<8>::codec("rotated, centred, 8 bits per coordinate");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
