// What streaming of weights did, in words and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weights/stream_stats.hpp"

namespace kvasir::run {

// "read 2.4 GB at 1.9 GB/s; waited 0.80 s for 31 of 64 blocks, 12 % of the reading was hidden".
std::string weights_line(const weights::StreamStats& stats);
nlohmann::ordered_json weights_json(const weights::StreamStats& stats);

}  // namespace kvasir::run
