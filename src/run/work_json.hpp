// What a service did and holds, in the words of all faces: /v1/stats, the C API and Python.
#pragma once

#include "base/json.hpp"
#include "run/service.hpp"

namespace kvasir::run {

// {"hit_share", "rates", "batch", "pool", "drafts", "selection"}. Null where there was nothing to tell of.
Json work_json(const ServiceStats& stats);

}  // namespace kvasir::run
