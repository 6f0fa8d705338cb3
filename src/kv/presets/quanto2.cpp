#include "kv/preset.hpp"

namespace kvasir::kv::presets_quanto2 {

const Preset entry = {"2 bits per token, groups of 64 channels (quanto)", "int2_token:64", "int2_token:64"};

}  // namespace kvasir::kv::presets_quanto2
