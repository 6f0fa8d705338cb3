#include "api/version.hpp"

namespace kvasir::api {

const char* version() { return KVASIR_VERSION; }

}  // namespace kvasir::api
