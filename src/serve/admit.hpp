// What is decided about a request before its body is read: whether it may come in, for whom, and where it goes.
#pragma once

#include <optional>
#include <string_view>

#include "serve/context.hpp"
#include "serve/http.hpp"
#include "serve/keys.hpp"
#include "serve/route.hpp"

namespace kvasir::serve {

struct Admission {
  const Entry<Route>* route = nullptr;  // null when nothing serves the path
  std::optional<Response> response;     // the answer already, or nothing: go on
};

// Sets the request's tenant and parameter. `loopback`: bound to a loopback address, so the Host header must be a
// loopback name (or an allowed one): a page whose name was rebound to 127.0.0.1 is refused. So is a browser's request
// from an origin that is neither allowed nor this server's own.
Admission admit(HttpRequest& request, bool target_ok, const KeyRing& keys, const Context& context, bool loopback);

Admission too_many_connections();

// Up to 128 of A-Z a-z 0-9 - _ . : so that it can be echoed and logged.
bool valid_request_id(std::string_view id);

}  // namespace kvasir::serve
