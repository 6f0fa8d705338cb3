#include <cstdint>

#include "kv/families/plain.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

struct Element {
  using T = float;
  KVASIR_INLINE F32 load(const T* p) { return simd::KVASIR_TARGET::load(p); }
  KVASIR_INLINE void store(T* p, F32 x) { simd::KVASIR_TARGET::store(p, x); }
};

}  // namespace

extern const Codec f32;
const Codec f32 = Plain<Element>::codec("32-bit floats, as computed", RawType::kF32);

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
