// JSON as this project has it: objects keep the order of their keys (tools are rendered into prompts, and a
// prompt whose keys moved is another prompt). What looks inside includes nlohmann/json.hpp, which
// costs every source that reads it a second of compiler time; headers that only pass JSON on need this one.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace kvasir {

using Json = nlohmann::ordered_json;

}  // namespace kvasir
