// Deletes what /v1/responses stored.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_forget_response {

const Route entry{
    .method = "DELETE",
    .path = "/v1/responses/{id}",
    .open = false,
    .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
      const std::string& id = exchange->request().parameter;
      if (!context.responses.erase(exchange->request().tenant, id))
        throw ApiException(
            {.status = 404, .message = fmt::format("the response '{}' is not stored here", id), .code = "not_found"});
      exchange->reply(json_response({{"id", id}, {"object", "response"}, {"deleted", true}}));
    }};

}  // namespace kvasir::serve::routes_forget_response
