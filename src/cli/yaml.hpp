// YAML where JSON is expected: configuration files of other programs. Needs yaml-cpp when this is built.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kvasir::cli {

bool reads_yaml();

// The text's one document as JSON: plain scalars are null, true, false or numbers where they look so, else strings.
// Throws Error(kBadInput) with line and column, Error(kUnsupported) where !reads_yaml().
nlohmann::json parse_yaml(const std::string& text, const std::string& context);

}  // namespace kvasir::cli
