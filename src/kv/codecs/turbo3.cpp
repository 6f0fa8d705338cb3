#include "kv/families/sketch/turbo.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec turbo3;
const Codec turbo3 =
    Turbo<3>::codec("TurboQuant_prod: 2-bit Lloyd-Max and a 1-bit sketch of the rest, 3 + 32/d bits, unbiased");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
