// The one form of receipts: what `kvasir run --json`, the server's `kvasir`, and the replies of C++, C and Python have.
#pragma once

#include "base/json.hpp"
#include "run/service.hpp"

namespace kvasir::run {

// `blend` is there where blending was asked for, `draft`, `weights`, `device`, `thinking_cut` and `select` where they
// apply. The server adds what only it knows.
Json receipt_json(const Outcome& outcome);

}  // namespace kvasir::run
