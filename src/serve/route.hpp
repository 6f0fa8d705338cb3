// Contract of an entry in serve/routes: one method and path of the HTTP interface.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/registry.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

struct Context;  // serve/context.hpp
class Exchange;  // serve/exchange.hpp

struct Route {
  std::string_view method;  // "GET" (which serves HEAD too), "POST" or "DELETE"
  std::string_view path;    // "/v1/models/{id}": braces stand for the rest of the path
  bool open;                // served without an API key

  // Answers through the exchange, now or later. Runs on a worker thread, so it may parse and tokenise, but it must not
  // wait. What it throws becomes an error response: Error and ApiException as they say, anything else 500.
  void (*handle)(Context& context, const std::shared_ptr<Exchange>& exchange);

  ErrorShape error = nullptr;  // of the path's errors
  // Whether it needs a loaded model. Of a server with several it is the one that the body names as `model`; `context`
  // is then that model's.
  bool needs_model = false;
};

std::span<const Entry<Route>> routes();

// The same and the paths of the dialects (serve/dialect.hpp).
std::span<const Entry<Route>> all_routes();

struct RouteMatch {
  const Entry<Route>* entry = nullptr;  // null: nothing serves this path
  bool method_allowed = false;          // false with an entry: the path exists, with other methods
};
// Exact paths go before those with braces.
RouteMatch find_route(std::string_view method, std::string_view path, std::string* parameter);

// How errors of requests to `path` look.
ErrorShape error_shape(std::string_view path);

}  // namespace kvasir::serve
