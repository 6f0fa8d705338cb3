// How many tokens a request to /v1/messages would have: https://docs.anthropic.com/en/api/messages-count-tokens
#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/families/anthropic.hpp"
#include "serve/generate_route.hpp"
#include "serve/picture_urls.hpp"
#include "serve/pictures.hpp"
#include "serve/prompt.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_count_tokens {
namespace {

void count(Context& context, const std::shared_ptr<Exchange>& exchange, PictureUrls* urls) {
  const HttpRequest& http = exchange->request();
  ApiRequest request = parse_anthropic(parse_body(http.body), request_limits(context, http, urls));
  read_pictures(request, context.pictures);
  // A prompt that is too long is counted too.
  const auto prompts = encode_prompts(request, context.service.tokenizer(), context.chat, {.context = INT64_MAX},
                                      &context.turns, http.tenant);
  Json out{{"input_tokens", prompts.front().ids.size()}};
  if (!request.notes.empty()) out["kvasir"]["notes"] = request.notes;  // as an answer would say
  if (!request.warnings.empty()) out["kvasir"]["warnings"] = request.warnings;
  exchange->reply(json_response(out));
}

void handle_count(Context&, const std::shared_ptr<Exchange>& exchange) {
  with_picture_urls(exchange, [exchange](PictureUrls* urls) { count(*exchange->context(), exchange, urls); });
}

}  // namespace

const Route entry{.method = "POST",
                  .path = "/v1/messages/count_tokens",
                  .open = false,
                  .handle = handle_count,
                  .error = anthropic_error,
                  .needs_model = true};

}  // namespace kvasir::serve::routes_count_tokens
