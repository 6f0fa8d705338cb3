// What streaming of weights did, in words and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weights/stream_figures.hpp"

namespace kvasir::run {

// "read 2.4 GB at 1.9 GB/s; waited 0.80 s for 31 of 64 blocks, 12 % of the reading was hidden".
std::string weights_line(const weights::StreamFigures& figures);
nlohmann::ordered_json weights_json(const weights::StreamFigures& figures);

}  // namespace kvasir::run
