// 4, 2, 2, 2 bits, as published: 3.875 bits per element, radius included; the name is the rounded figure.
#include "kv/families/polar/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec polar4;
const Codec polar4 = Polar<4, 2, 2, 2>::codec("PolarQuant as published: rotation, four levels of angles, 3.875 bits");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
