#include "kv/preset.hpp"

namespace kvasir::kv::entries::presets {

extern const Preset exact;
const Preset exact = {"uncompressed 16-bit floats", "f16", "f16"};

}  // namespace kvasir::kv::entries::presets
