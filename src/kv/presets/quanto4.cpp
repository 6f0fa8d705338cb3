#include "kv/preset.hpp"

namespace kvasir::kv::presets_quanto4 {

const Preset entry = {"4 bits per token, groups of 64 channels (quanto)", "int4_token:64", "int4_token:64"};

}  // namespace kvasir::kv::presets_quanto4
