#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset quanto4;
const Preset quanto4 = {"4 bits per token, groups of 64 channels (quanto)", "int4_token:64", "int4_token:64"};

}  // namespace kvasir::kv::entries::presets
