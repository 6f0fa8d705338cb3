// Counters for Prometheus.
#include "base/clock.hpp"
#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route metrics;
const Route metrics{.method = "GET",
                    .path = "/metrics",
                    .open = false,
                    .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                      exchange->reply({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                       .body = context.metrics.text(context.service.stats(), context.connections.load(),
                                                                    steady_seconds() - context.start)});
                    }};

}  // namespace kvasir::serve::entries::routes
