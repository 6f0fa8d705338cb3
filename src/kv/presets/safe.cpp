#include "kv/preset.hpp"

namespace kvasir::kv::presets_safe {

const Preset entry = {"8 bits, rotated", "rq8", "rq8"};

}  // namespace kvasir::kv::presets_safe
