// How long tests wait for what has to come.
#pragma once

#include <chrono>

namespace kvasir {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Only what hangs takes this long, also on a machine that is busy with other things; ThreadSanitizer alone makes
// generating about 15 times slower.
constexpr std::chrono::seconds kPatience{kSanitized ? 900 : 60};

}  // namespace kvasir
