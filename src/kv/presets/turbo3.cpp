#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset turbo3;
const Preset turbo3 = {"TurboQuant at 3 bits as published, for comparison", "turbo3", "turbo3"};

}  // namespace kvasir::kv::entries::presets
