// How the end of a request that brought no answer is told to the client.
#pragma once

#include <optional>

#include "run/service.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

// Nothing when the outcome is an answer. The only place where outcomes become statuses.
std::optional<ApiError> failure_of(const run::Outcome& outcome);

}  // namespace kvasir::serve
