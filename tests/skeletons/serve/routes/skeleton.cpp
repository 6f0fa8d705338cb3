// A route of the HTTP server: copy to src/serve/routes/NAME.cpp and rename `skeleton` to NAME. Contract:
// serve/route.hpp.
#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_skeleton {

const Route entry{.method = "GET",
                  .path = "/skeleton",
                  .open = false,
                  .handle = [](Context&, const std::shared_ptr<Exchange>& exchange) {
                    exchange->reply(json_response({{"skeleton", true}}));
                  }};

}  // namespace kvasir::serve::routes_skeleton
