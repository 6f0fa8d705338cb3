// llama.cpp's slots, to be read only. Here a slot is a request that may run beside others: no text belongs to it, since
// prompts are found in the cache by their content.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/roster.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_slots {
namespace {

void add_slots(Json& slots, const Context& context) {
  const run::ServiceStats stats = context.service.stats();
  const run::ModelCard& card = context.service.card();
  for (std::int32_t i = 0; i < card.running; ++i) {
    slots.push_back(
        {{"id", slots.size()}, {"n_ctx", card.context}, {"speculative", false}, {"is_processing", i < stats.running}});
    if (context.shared->roster) slots.back()["model"] = card.name;
  }
}

void handle_slots(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json slots = Json::array();
  if (Roster* const roster = context.shared->roster) {
    for (const Roster::Entry& m : roster->list())
      if (const auto loaded = roster->peek(m.card.name)) add_slots(slots, *loaded);
  } else {
    add_slots(slots, context);
  }
  exchange->reply(json_response(slots));
}

}  // namespace

const Route entry{.method = "GET", .path = "/slots", .open = false, .handle = handle_slots};

}  // namespace kvasir::serve::routes_slots
