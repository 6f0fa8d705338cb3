#include "kv/families/rotated/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec rq4;
const Codec rq4 = Rotated<4>::codec("rotated, centred, 4 bits per coordinate");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
