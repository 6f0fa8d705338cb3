// A preset of the cache: copy to src/kv/presets/NAME.cpp and rename `skeleton` to NAME. Contract: kv/preset.hpp.
#include "kv/preset.hpp"

namespace kvasir::kv::presets_skeleton {

const Preset entry = {"a skeleton", "f16", "f16"};

}  // namespace kvasir::kv::presets_skeleton
