// llama.cpp's slots, to be read only. Here a slot is a request that may run beside others: no text belongs to it, since
// prompts are found in the cache by their content.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {
namespace {

void handle_slots(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const run::ServiceStats stats = context.service.stats();
  const run::ModelCard& card = context.service.card();
  Json slots = Json::array();
  for (std::int32_t i = 0; i < card.running; ++i)
    slots.push_back({{"id", i}, {"n_ctx", card.context}, {"speculative", false}, {"is_processing", i < stats.running}});
  exchange->reply(json_response(slots));
}

}  // namespace

extern const Route slots;
const Route slots{.method = "GET", .path = "/slots", .open = false, .handle = handle_slots};

}  // namespace kvasir::serve::entries::routes
