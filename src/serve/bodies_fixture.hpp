// Bodies of requests that several tests send.
#pragma once

#include <nlohmann/json.hpp>

#include "serve/http.hpp"

namespace kvasir::serve {

inline const Json kChatBody{{"model", "org/fake-model"}, {"messages", {{{"role", "user"}, {"content", "hello"}}}}};

// `body` with the fields of `more`, which replace its own.
inline Json with(Json body, const Json& more) {
  body.update(more);
  return body;
}

}  // namespace kvasir::serve
