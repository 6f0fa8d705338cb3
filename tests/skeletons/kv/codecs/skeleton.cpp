// A codec of sealed cache pages: copy to src/kv/codecs/NAME.cpp and rename `skeleton` to NAME. Compiled once per
// instruction set. Contract: kv/codec.hpp.
#include "kv/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

extern const Codec skeleton;
const Codec skeleton{.summary = "a codec that refuses every head size",
                     .refuse = [](int /*d*/, Side /*side*/, CodecParams* /*params*/) { return "this is a skeleton"; }};

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
