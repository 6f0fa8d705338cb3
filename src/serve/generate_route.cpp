#include "serve/generate_route.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/context_shift.hpp"
#include "serve/dialect.hpp"
#include "serve/generation.hpp"
#include "serve/picture_urls.hpp"
#include "serve/pictures.hpp"
#include "serve/prompt.hpp"
#include "serve/thinking.hpp"

namespace kvasir::serve {

RequestLimits request_limits(Context& context, const HttpRequest& request, PictureUrls* urls) {
  const run::ModelCard& card = context.service.card();
  return {.vocabulary = card.vocabulary,
          .choices = context.options.max_choices,
          .model = context.options.any_model ? std::string() : card.name,
          .keep_billing_line = context.options.keep_billing_line,
          .tenant = request.tenant,
          .responses = context.responses.on() ? &context.responses : nullptr,
          .pictures = context.pictures != nullptr,
          .urls = urls,
          .sampling = card.sampling};
}

std::vector<EncodedPrompt> encode_request(Context& context, const ApiRequest& request, const std::string& tenant) {
  return encode_prompts(request, context.service.tokenizer(), context.chat,
                        {.context = context.service.card().context, .most = context.options.max_prompt}, &context.turns,
                        tenant);
}

namespace {

// What the answer may be and how its text is told apart, now that the chat template is known.
void prepare_chat(Context& context, const EncodedPrompt& prompt, ApiRequest& request) {
  run::Request& asked = request.service.request;
  for (std::string& text : context.chat->warnings(request.chat)) request.warnings.push_back(std::move(text));
  if (request.chat.must_call) {
    if (request.format) request.warnings.emplace_back("response_format is not held: tool_choice asks for a call");
    asked.grammar = context.chat->calls(request.chat, nullptr, request.warnings);
  } else if (request.chat.calls() && request.format) {
    asked.grammar = context.chat->calls(request.chat, request.format, request.warnings);
  } else if (request.chat.callable && !request.format) {
    asked.grammar = context.chat->other_calls_forbidden(request.chat, request.warnings);
    request.any_text = asked.grammar != nullptr;
    if (!asked.grammar)
      request.warnings.emplace_back(
          "tool_choice: with this chat template it is not known how calls begin, so those that are not wanted are not "
          "forbidden, they are content");
  }
  asked.shown = shown_tokens(*context.chat, request.chat, *context.service.tokenizer());
  bound_thinking(*context.chat, *context.service.tokenizer(), prompt, request);
}

void warn_of_length(const Context& context, const std::vector<EncodedPrompt>& prompts, text::Warnings& warnings) {
  const std::int64_t trained = context.service.card().trained_context;
  for (const EncodedPrompt& p : prompts) {
    if (trained <= 0 || static_cast<std::int64_t>(p.ids.size()) <= trained) continue;
    warnings.push_back(fmt::format("the prompt has {} tokens, the model was trained for {}", p.ids.size(), trained));
    return;
  }
}

void answer(Context& context, const std::shared_ptr<Exchange>& exchange, PictureUrls* urls) {
  const HttpRequest& http = exchange->request();
  const Dialect& dialect = *find_dialect(http.path);
  ApiRequest request = dialect.parse(parse_body(http.body), request_limits(context, http, urls));
  if (!request.ready.is_null()) return exchange->reply(json_response(request.ready));
  read_pictures(request, context.pictures);
  if (request.shift.on && request.is_chat && context.chat && context.service.tokenizer())
    fit_chat(request, *context.chat, *context.service.tokenizer(), context.service.card().context);
  auto prompts = encode_request(context, request, http.tenant);
  for (const EncodedPrompt& p : prompts) request.shift.dropped_tokens += p.dropped;
  if (request.shift.on && !prompts.front().runs.empty())
    request.warnings.emplace_back("context_shift: with pictures a full context ends the answer");
  if (request.is_chat) prepare_chat(context, prompts.front(), request);
  warn_of_length(context, prompts, request.warnings);
  exchange->name_prefix(context.prefix_ids.name(http, request, prompts));
  Generation::start(exchange, dialect, std::move(request), std::move(prompts));
}

}  // namespace

void answer_in_dialect(Context&, const std::shared_ptr<Exchange>& exchange) {
  with_picture_urls(exchange, [exchange](PictureUrls* urls) { answer(*exchange->context(), exchange, urls); });
}

}  // namespace kvasir::serve
