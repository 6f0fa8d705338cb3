// Counters for Prometheus.
#include "base/clock.hpp"
#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_metrics {

const Route entry{.method = "GET",
                  .path = "/metrics",
                  .open = false,
                  .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                    exchange->reply({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                     .body = context.metrics.text(context.service.stats(), context.connections.load(),
                                                                  steady_seconds() - context.start)});
                  }};

}  // namespace kvasir::serve::routes_metrics
