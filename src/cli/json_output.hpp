// Machine-readable output: with --json a command prints one JSON object per line on stdout and nothing else there.
#pragma once

#include <nlohmann/json.hpp>

namespace kvasir::cli {

// Prints `object` on one line and flushes, so that a reader sees each row when it is made. Strings that are not UTF-8
// get replacement characters; NaN and infinities become null.
void print_json_row(const nlohmann::ordered_json& object);

}  // namespace kvasir::cli
