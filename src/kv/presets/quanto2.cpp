#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset quanto2;
const Preset quanto2 = {"2 bits per token, groups of 64 channels (quanto)", "int2_token:64", "int2_token:64"};

}  // namespace kvasir::kv::entries::presets
