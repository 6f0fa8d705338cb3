// The first line of a coding agent's system prompt holds a hash that changes with every request:
//   x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;
// so that no two of its prompts would share more than their first tokens
// (https://github.com/anthropics/claude-code/issues/68900).
#pragma once

#include <string>

namespace kvasir::serve {

// Makes the changing digits zeros, where `system` begins with such a line. True: there was one.
bool settle_billing_line(std::string& system);

}  // namespace kvasir::serve
