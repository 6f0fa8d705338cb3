// What a device did with pages of the cache, in words and as JSON.
#pragma once

#include <string>

#include "base/json.hpp"
#include "kv/options.hpp"

namespace kvasir::run {

// "NVIDIA H200: 240 pages (31 MB copied), 1920 groups folded, waited 0.02 s".
std::string device_line(const kv::DeviceStats& stats);
Json device_json(const kv::DeviceStats& stats);

}  // namespace kvasir::run
