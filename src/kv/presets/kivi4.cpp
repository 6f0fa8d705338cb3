#include "kv/preset.hpp"

namespace kvasir::kv::presets_kivi4 {

const Preset entry = {"4-bit keys per channel, values per token (KIVI)", "int4_channel", "int4_token"};

}  // namespace kvasir::kv::presets_kivi4
