#include "kv/preset.hpp"

namespace kvasir::kv::presets_kivi2 {

const Preset entry = {"2-bit keys per channel, values per token (KIVI)", "int2_channel", "int2_token"};

}  // namespace kvasir::kv::presets_kivi2
