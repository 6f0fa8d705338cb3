#include <cstdint>

#include "kv/families/plain.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

struct Element {
  using T = std::uint16_t;
  KVASIR_INLINE F32 load(const T* p) { return load_f16(p); }
  // Saturates, so that one outlier does not turn sums into infinity; NaN stays NaN (the second operand of max and min).
  KVASIR_INLINE void store(T* p, F32 x) { store_f16(p, min(set1(65504.0f), max(set1(-65504.0f), x))); }
};

}  // namespace

extern const Codec f16;
const Codec f16 = Plain<Element>::codec("IEEE half precision", RawType::kF16);

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
