// Ollama's older /api/embeddings: the vector of one text as the model gives it, not divided by its length.
#include <nlohmann/json.hpp>

#include "serve/embedding.hpp"
#include "serve/families/ollama.hpp"
#include "serve/generate_route.hpp"
#include "serve/route.hpp"
#include "serve/texts.hpp"

namespace kvasir::serve::routes_ollama_embeddings {
namespace {

void handle_embeddings(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& http = exchange->request();
  const Json body = parse_body(http.body);
  const Fields fields(body);
  check_ollama_model(fields, request_limits(context, http));
  const std::string* prompt = fields.string("prompt");
  if (!prompt || prompt->empty()) return exchange->reply(json_response({{"embedding", Json::array()}}));
  const run::ModelCard& card = context.service.card();
  auto encoded = encode_texts(
      {Prompt{.text = *prompt}}, "prompt", context.service.tokenizer(),
      {.context = card.context - (card.generates ? 1 : 0), .most = context.options.max_prompt, .cut = true});
  compute_vectors(exchange, std::move(encoded), read_pooling(fields, card), [](Vectors vectors) {
    return Json{{"embedding", vectors.rows.front()}};
  });
}

}  // namespace

const Route entry{.method = "POST",
                  .path = "/api/embeddings",
                  .open = false,
                  .handle = handle_embeddings,
                  .error = ollama_error,
                  .needs_model = true};

}  // namespace kvasir::serve::routes_ollama_embeddings
