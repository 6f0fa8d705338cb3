// Ollama's /api/embed: vectors of one text or several, of length 1. Texts that are too long lose their end unless
// `truncate` is false.
#include <cmath>
#include <nlohmann/json.hpp>

#include "serve/embedding.hpp"
#include "serve/families/ollama.hpp"
#include "serve/generate_route.hpp"
#include "serve/route.hpp"
#include "serve/texts.hpp"

namespace kvasir::serve::routes_ollama_embed {
namespace {

void handle_embed(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& http = exchange->request();
  const Json body = parse_body(http.body);
  const Fields fields(body);
  const RequestLimits limits = request_limits(context, http);
  const std::string model = check_ollama_model(fields, limits);
  const run::ModelCard& card = context.service.card();
  const Json* input = fields.find("input");
  if (!input || *input == "" || *input == Json::array())  // loads the model
    return exchange->reply(json_response({{"model", model}, {"embeddings", Json::array()}}));
  const std::int64_t dimensions = read_dimensions(fields, card);
  const model::Pooling pooling = read_pooling(fields, card);
  auto encoded = encode_texts(read_texts(*input, "input", limits.vocabulary), "input", context.service.tokenizer(),
                              {.context = card.context - (card.generates ? 1 : 0),
                               .most = context.options.max_prompt,
                               .cut = fields.boolean("truncate").value_or(true)});
  compute_vectors(exchange, std::move(encoded), pooling, [=](Vectors vectors) {
    Json rows = Json::array();
    for (std::vector<float>& row : vectors.rows) {
      settle_vector(row, dimensions, true);
      rows.push_back(row);
    }
    return Json{{"model", model},
                {"embeddings", std::move(rows)},
                {"total_duration", std::llround(vectors.seconds * 1e9)},
                {"load_duration", 0},
                {"prompt_eval_count", vectors.tokens}};
  });
}

}  // namespace

const Route entry{.method = "POST",
                  .path = "/api/embed",
                  .open = false,
                  .handle = handle_embed,
                  .error = ollama_error,
                  .needs_model = true};

}  // namespace kvasir::serve::routes_ollama_embed
