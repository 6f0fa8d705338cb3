#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset tiny;
const Preset tiny = {
    .summary = "2 to 3 bits, rotated, shared out among the layers", .k = "rq3", .v = "rq2", .share = 0.16};

}  // namespace kvasir::kv::entries::presets
