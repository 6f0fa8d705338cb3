#include "kv/families/rotated/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec rq5;
const Codec rq5 = Rotated<5>::codec("rotated, centred, 5 bits per coordinate");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
