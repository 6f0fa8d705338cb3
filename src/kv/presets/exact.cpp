#include "kv/preset.hpp"

namespace kvasir::kv::presets_exact {

const Preset entry = {"uncompressed 16-bit floats", "f16", "f16"};

}  // namespace kvasir::kv::presets_exact
