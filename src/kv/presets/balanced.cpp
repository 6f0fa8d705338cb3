#include "kv/preset.hpp"

namespace kvasir::kv::presets_balanced {

const Preset entry = {
    .summary = "4 to 5 bits, rotated, shared out among the layers", .k = "rq5", .v = "rq4", .share = 0.30};

}  // namespace kvasir::kv::presets_balanced
