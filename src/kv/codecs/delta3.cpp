#include "kv/families/delta/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec delta3;
const Codec delta3 = delta_codec<3>("keys as differences to the previous one in 3 bits, segments of 16 or 32 tokens");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
