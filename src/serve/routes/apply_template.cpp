// The prompt that a chat would have, as text. Body: that of a chat.
#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/exchange.hpp"
#include "serve/generate_route.hpp"
#include "serve/request.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_apply_template {
namespace {

void handle_apply(Context& context, const std::shared_ptr<Exchange>& exchange) {
  if (!context.chat)
    throw ApiException({.status = 501, .message = "this model has no chat template", .code = "unsupported"});
  const HttpRequest& http = exchange->request();
  const ApiRequest request = parse_chat(parse_body(http.body), request_limits(context, http));
  exchange->reply(json_response({{"prompt", context.chat->render(request.chat)}}));
}

}  // namespace

const Route entry{
    .method = "POST", .path = "/apply-template", .open = false, .handle = handle_apply, .needs_model = true};

}  // namespace kvasir::serve::routes_apply_template
