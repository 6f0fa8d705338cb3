// The models of this server: one.
#include "serve/exchange.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route models;
const Route models{.method = "GET",
                   .path = "/v1/models",
                   .open = false,
                   .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                     exchange->reply(json_response({{"object", "list"}, {"data", Json::array({model_json(context)})}}));
                   }};

}  // namespace kvasir::serve::entries::routes
