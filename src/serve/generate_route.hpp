// What the routes that generate have in common.
#pragma once

#include "serve/exchange.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

using ParseRequest = ApiRequest (*)(const Json& body, const RequestLimits& limits);

// Parses, tokenises and submits; the answer follows through the exchange. Throws as these do.
void generate(const std::shared_ptr<Exchange>& exchange, ParseRequest parse);

RequestLimits request_limits(const Context& context);

}  // namespace kvasir::serve
