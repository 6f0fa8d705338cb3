#include "kv/preset.hpp"

namespace kvasir::kv::presets_tiny {

const Preset entry = {
    .summary = "2 to 3 bits, rotated, shared out among the layers", .k = "rq3", .v = "rq2", .share = 0.16};

}  // namespace kvasir::kv::presets_tiny
