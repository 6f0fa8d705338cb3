// The models of this server.
#include "serve/exchange.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_models {

const Route entry{.method = "GET",
                  .path = "/v1/models",
                  .open = false,
                  .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                    Json data = Json::array();
                    for (const Roster::Entry& m : known_models(context)) data.push_back(model_json(context, m));
                    exchange->reply(json_response({{"object", "list"}, {"data", std::move(data)}}));
                  }};

}  // namespace kvasir::serve::routes_models
