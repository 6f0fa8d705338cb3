#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset kivi4;
const Preset kivi4 = {"4-bit keys per channel, values per token (KIVI)", "int4_channel", "int4_token"};

}  // namespace kvasir::kv::entries::presets
