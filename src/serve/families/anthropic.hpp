// The Messages API of Anthropic: https://docs.anthropic.com/en/api/messages. Its body becomes that of a chat.
#pragma once

#include "serve/dialect.hpp"

namespace kvasir::serve {

// The body of /v1/messages and /v1/messages/count_tokens. Blocks become messages in their order: a tool_result is a
// message of the role tool, thinking is reasoning_content, a last message of the assistant is continued. Kinds of tools
// that are the API's own are left out. cache_control pins the prompt for its ttl. The billing line of a coding agent is
// made constant unless limits.keep_billing_line. What was done so is said in notes. Throws ApiException.
ApiRequest parse_anthropic(const Json& body, const RequestLimits& limits);

Json anthropic_error(const ApiError& error);

}  // namespace kvasir::serve
