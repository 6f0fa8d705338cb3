// Contract of an entry in kv/presets: a name for a choice of codecs. Each file defines
//   const Preset kvasir::kv::presets_<stem>::entry;
#pragma once

#include <span>

#include "base/registry.hpp"

namespace kvasir::kv {

struct Preset {
  const char* summary;
  const char* k;  // codecs as parse_codec reads them
  const char* v;
  // More than 0: within this share of the bytes of f16 every layer gets codecs of its own, by kv/share_policy.hpp; k
  // and v are those of the average layer.
  double share = 0;
};

std::span<const Entry<Preset>> presets();

}  // namespace kvasir::kv
