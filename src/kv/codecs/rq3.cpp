#include "kv/families/rotated/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec rq3;
const Codec rq3 = Rotated<3>::codec("rotated, centred, 3 bits per coordinate");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
