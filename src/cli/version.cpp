#include "cli/version.hpp"

namespace kvasir::cli {

const char* version() { return KVASIR_VERSION; }

}  // namespace kvasir::cli
