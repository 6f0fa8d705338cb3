// Counters for Prometheus.
#include "base/clock.hpp"
#include "serve/exchange.hpp"
#include "serve/route.hpp"
#include "serve/vllm_metrics.hpp"

namespace kvasir::serve::routes_metrics {

const Route entry{
    .method = "GET",
    .path = "/metrics",
    .open = false,
    .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
      const run::ServiceStats stats = context.service.stats();
      std::string text = context.metrics.text(stats, context.connections.load(), steady_seconds() - context.start);
      if (context.pictures) text += picture_metrics_text(context.pictures->stats());
      if (context.options.vllm_metrics) text += vllm_metrics_text(context.metrics, stats, context.service.card().name);
      exchange->reply({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(text)});
    }};

}  // namespace kvasir::serve::routes_metrics
