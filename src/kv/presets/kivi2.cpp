#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset kivi2;
const Preset kivi2 = {"2-bit keys per channel, values per token (KIVI)", "int2_channel", "int2_token"};

}  // namespace kvasir::kv::entries::presets
