#include "kv/families/delta/seal.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec delta4;
const Codec delta4 = delta_codec<4>("keys as differences to the previous one in 4 bits, segments of 16 or 32 tokens");

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
