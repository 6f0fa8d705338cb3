#include "kv/preset.hpp"

namespace kvasir::kv::presets_hqq4 {

const Preset entry = {"4 bits per token, groups of 64 channels, refined offsets (HQQ)", "hqq4", "hqq4"};

}  // namespace kvasir::kv::presets_hqq4
