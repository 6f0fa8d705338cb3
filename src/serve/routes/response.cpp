// What /v1/responses stored: a response, or with /input_items behind its id what it answered.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_response {
namespace {

constexpr std::string_view kItems = "/input_items";

void handle_response(Context& context, const std::shared_ptr<Exchange>& exchange) {
  std::string id = exchange->request().parameter;
  const bool items = id.ends_with(kItems);
  if (items) id.resize(id.size() - kItems.size());
  const auto stored = context.responses.find(exchange->request().tenant, id);
  if (!stored)
    throw ApiException(
        {.status = 404, .message = fmt::format("the response '{}' is not stored here", id), .code = "not_found"});
  if (!items) return exchange->reply({.body = stored->response});
  exchange->reply(json_response({{"object", "list"}, {"data", Json::parse(stored->input)}, {"has_more", false}}));
}

}  // namespace

const Route entry{.method = "GET", .path = "/v1/responses/{id}", .open = false, .handle = handle_response};

}  // namespace kvasir::serve::routes_response
