#include <cstdint>

#include "kv/families/plain.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

struct Element {
  using T = std::uint16_t;
  KVASIR_INLINE F32 load(const T* p) { return load_bf16(p); }
  KVASIR_INLINE void store(T* p, F32 x) { store_bf16(p, x); }
};

}  // namespace

extern const Codec bf16;
const Codec bf16 = Plain<Element>::codec("bfloat16", RawType::kBf16);

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
