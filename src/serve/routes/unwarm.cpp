// Ends the pin of a prompt that /v1/warm computed: the same body. Its pages stay until others need their place.
#include "serve/body.hpp"
#include "serve/exchange.hpp"
#include "serve/generate_route.hpp"
#include "serve/prompt.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_unwarm {
namespace {

void handle_unwarm(Context& context, const std::shared_ptr<Exchange>& exchange) {
  ApiRequest request = parse_warm(parse_body(exchange->request().body), request_limits(context, exchange->request()));
  const std::string& tenant = exchange->request().tenant;
  const PromptLimits limits{.context = context.service.card().context, .most = context.options.max_prompt};
  const auto encode = [&](TurnMemory* memory) {
    return encode_prompts(request, context.service.tokenizer(), context.chat, limits, memory, tenant).front().ids;
  };
  // What was remembered of its turns may have changed since it was pinned.
  run::ServiceRequest& asked = request.service;
  asked.tenant = tenant;
  asked.request.prompt = encode(&context.turns);
  bool found = context.service.unpin(asked);
  if (!found) {
    asked.request.prompt = encode(nullptr);
    found = context.service.unpin(asked);
  }
  if (!found) throw ApiException({.status = 404, .message = "this prompt is not pinned", .code = "not_pinned"});
  exchange->reply(json_response({{"object", "kvasir.warm"},
                                 {"model", context.service.card().name},
                                 {"pinned", false},
                                 {"prompt_tokens", asked.request.prompt.size()}}));
}

}  // namespace

const Route entry{.method = "DELETE", .path = "/v1/warm", .open = false, .handle = handle_unwarm, .needs_model = true};

}  // namespace kvasir::serve::routes_unwarm
