#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset tiny;
const Preset tiny = {"2 bits, rotated", "rq2", "rq2"};

}  // namespace kvasir::kv::entries::presets
