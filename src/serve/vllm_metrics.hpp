// The engine's figures under the names that vLLM's /metrics has, for routers and autoscalers that read those.
#pragma once

#include <string>

#include "run/service.hpp"
#include "serve/metrics.hpp"

namespace kvasir::serve {

// Text format 0.0.4; every line has the labels model_name and engine.
std::string vllm_metrics_text(const Metrics& metrics, const run::ServiceStats& stats, const std::string& model);

}  // namespace kvasir::serve
