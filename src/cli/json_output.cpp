#include "cli/json_output.hpp"

#include <cstdio>

namespace kvasir::cli {

void print_json_row(const nlohmann::ordered_json& object) {
  const std::string line = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace kvasir::cli
