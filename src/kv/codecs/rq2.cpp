#include "kv/families/rotated/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec rq2;
const Codec rq2 = Rotated<2>::codec("rotated, centred, 2 bits per coordinate");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
