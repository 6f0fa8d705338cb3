// The OpenAI API's model object, and what this model is.
#pragma once

#include "serve/context.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

Json model_json(const Context& context);

}  // namespace kvasir::serve
