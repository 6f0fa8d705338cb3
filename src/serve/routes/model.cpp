// One model. Names may hold slashes.
#include <fmt/format.h>

#include "serve/exchange.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_model {

const Route entry{.method = "GET",
                  .path = "/v1/models/{id}",
                  .open = false,
                  .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                    const std::string& id = exchange->request().parameter;
                    for (const Roster::Entry& m : known_models(context))
                      if (m.card.name == id) return exchange->reply(json_response(model_json(context, m)));
                    throw ApiException({.status = 404,
                                        .message = fmt::format("the model '{}' does not exist", id),
                                        .param = "model",
                                        .code = "model_not_found"});
                  }};

}  // namespace kvasir::serve::routes_model
