#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset balanced;
const Preset balanced = {"4 bits, rotated", "rq4", "rq4"};

}  // namespace kvasir::kv::entries::presets
