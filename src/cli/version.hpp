// The version that the build was configured with.
#pragma once

namespace kvasir::cli {

const char* version();  // "0.1.0"

}  // namespace kvasir::cli
