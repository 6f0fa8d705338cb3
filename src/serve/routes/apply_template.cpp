// The prompt that a chat would have, as text. Body: that of a chat.
#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/exchange.hpp"
#include "serve/generate_route.hpp"
#include "serve/picture_urls.hpp"
#include "serve/pictures.hpp"
#include "serve/prompt.hpp"
#include "serve/request.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_apply_template {
namespace {

void apply(Context& context, const std::shared_ptr<Exchange>& exchange, PictureUrls* urls) {
  if (!context.chat)
    throw ApiException({.status = 501, .message = "this model has no chat template", .code = "unsupported"});
  const HttpRequest& http = exchange->request();
  ApiRequest request = parse_chat(parse_body(http.body), request_limits(context, http, urls));
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  read_pictures(request, context.pictures);
  const std::string prompt =
      tokenizer ? encode_prompts(request, tokenizer, context.chat, {.context = INT64_MAX}, &context.turns, http.tenant)
                      .front()
                      .for_people()
                : context.chat->render(request.chat);
  exchange->reply(json_response({{"prompt", prompt}}));
}

void handle_apply(Context&, const std::shared_ptr<Exchange>& exchange) {
  with_picture_urls(exchange, [exchange](PictureUrls* urls) { apply(*exchange->context(), exchange, urls); });
}

}  // namespace

const Route entry{
    .method = "POST", .path = "/apply-template", .open = false, .handle = handle_apply, .needs_model = true};

}  // namespace kvasir::serve::routes_apply_template
