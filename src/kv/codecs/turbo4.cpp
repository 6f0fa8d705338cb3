#include "kv/families/sketch/turbo.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec turbo4;
const Codec turbo4 =
    Turbo<4>::codec("TurboQuant_prod: 3-bit Lloyd-Max and a 1-bit sketch of the rest, 4 + 32/d bits, unbiased");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
