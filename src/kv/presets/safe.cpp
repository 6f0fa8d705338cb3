#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset safe;
const Preset safe = {"8 bits, rotated", "rq8", "rq8"};

}  // namespace kvasir::kv::entries::presets
