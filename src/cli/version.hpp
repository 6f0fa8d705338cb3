// What the build was configured with.
#pragma once

namespace kvasir::cli {

const char* version();  // "0.1.0"
const char* commit();   // "1a2b3c4", with "-dirty" behind it when sources differ from it, or "unknown"

}  // namespace kvasir::cli
