#include "cli/version.hpp"

namespace kvasir::cli {

const char* version() { return KVASIR_VERSION; }
const char* commit() { return KVASIR_COMMIT; }

}  // namespace kvasir::cli
