#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset small;
const Preset small = {"3 bits, rotated", "rq3", "rq3"};

}  // namespace kvasir::kv::entries::presets
