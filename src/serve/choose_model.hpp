// Which of a server's models a request is for, and the wait until it is loaded.
#pragma once

#include <functional>
#include <memory>

#include "serve/exchange.hpp"
#include "serve/roster.hpp"

namespace kvasir::serve {

// The exchange gets the context of the model that the body names, or of the first where it names none; then `then` is
// called on the strand. Otherwise it is answered with what Roster::acquire says. Throws ApiException for a body that is
// no JSON and a name that nothing has.
void choose_model(Roster& roster, const std::shared_ptr<Exchange>& exchange, std::function<void()> then);

// The value of `model` in a query "model=a%2Fb&autoload=1"; "" without one.
std::string model_in_query(std::string_view query);

}  // namespace kvasir::serve
