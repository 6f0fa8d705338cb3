#include "kv/preset.hpp"

namespace kvasir::kv::presets_turbo3 {

const Preset entry = {"TurboQuant at 3 bits as published, for comparison", "turbo3", "turbo3"};

}  // namespace kvasir::kv::presets_turbo3
