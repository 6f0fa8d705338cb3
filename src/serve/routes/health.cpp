// For load balancers: 200 while requests are taken, 503 when the server is going down.
#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_health {

const Route entry{.method = "GET",
                  .path = "/health",
                  .open = true,
                  .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                    const bool draining = context.draining.load();
                    Response r = json_response({{"status", draining ? "draining" : "ok"}});
                    r.status = draining ? 503 : 200;
                    exchange->reply(std::move(r));
                  }};

}  // namespace kvasir::serve::routes_health
