#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset hqq4;
const Preset hqq4 = {"4 bits per token, groups of 64 channels, refined offsets (HQQ)", "hqq4", "hqq4"};

}  // namespace kvasir::kv::entries::presets
