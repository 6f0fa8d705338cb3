// The adapters that requests choose from, as llama.cpp's server lists them.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_lora_adapters {
namespace {

void handle_adapters(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json all = Json::array();
  for (const run::AdapterCard& a : context.service.card().adapters)
    all.push_back({{"id", all.size()}, {"path", a.name}, {"scale", a.scale}});
  exchange->reply(json_response(all));
}

}  // namespace

const Route entry{
    .method = "GET", .path = "/lora-adapters", .open = false, .handle = handle_adapters, .needs_model = true};

}  // namespace kvasir::serve::routes_lora_adapters
