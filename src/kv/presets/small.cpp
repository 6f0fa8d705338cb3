#include "kv/preset.hpp"

namespace kvasir::kv::presets_small {

const Preset entry = {
    .summary = "3 to 4 bits, rotated, shared out among the layers", .k = "rq4", .v = "rq3", .share = 0.23};

}  // namespace kvasir::kv::presets_small
