#include "serve/generate_route.hpp"

#include "serve/body.hpp"
#include "serve/generation.hpp"
#include "serve/prompt.hpp"

namespace kvasir::serve {

RequestLimits request_limits(const Context& context) {
  const run::ModelCard& card = context.service.card();
  return {.vocabulary = card.vocabulary,
          .choices = context.options.max_choices,
          .model = context.options.any_model ? std::string() : card.name};
}

void generate(const std::shared_ptr<Exchange>& exchange, ParseRequest parse) {
  Context& context = *exchange->context();
  ApiRequest request = parse(parse_body(exchange->request().body), request_limits(context));
  auto prompts = encode_prompts(request, context.service.tokenizer(), context.chat,
                                {.context = context.service.card().context, .most = context.options.max_prompt},
                                &context.turns, exchange->request().tenant);
  if (request.chat.must_call) request.service.request.grammar = context.chat->calls(request.chat);
  exchange->name_prefix(context.prefix_ids.name(exchange->request(), request, prompts));
  Generation::start(exchange, std::move(request), std::move(prompts));
}

}  // namespace kvasir::serve
