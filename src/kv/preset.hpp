// Contract of an entry in kv/presets: a name for a choice of codecs. Each file defines
//   extern const Preset kvasir::kv::entries::presets::<stem>;
#pragma once

#include <span>

#include "base/registry.hpp"

namespace kvasir::kv {

struct Preset {
  const char* summary;
  const char* k;  // codecs as parse_codec reads them
  const char* v;
};

std::span<const Entry<Preset>> presets();

}  // namespace kvasir::kv
