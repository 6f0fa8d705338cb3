// Vectors of texts: https://platform.openai.com/docs/api-reference/embeddings. Additions: `pooling`, `normalize`,
// `truncate`.
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "serve/body.hpp"
#include "serve/embedding.hpp"
#include "serve/generate_route.hpp"
#include "serve/route.hpp"
#include "serve/texts.hpp"

namespace kvasir::serve::routes_embeddings {
namespace {

// Little-endian float32, as the API has it.
std::string base64_of(const std::vector<float>& vector) {
  std::string bytes;
  for (const float x : vector) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i)));
  }
  return to_base64(bytes);
}

void handle_embeddings(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& http = exchange->request();
  const Json body = parse_body(http.body);
  const Fields fields(body);
  const RequestLimits limits = request_limits(context, http);
  check_model(fields, limits);
  const run::ModelCard& card = context.service.card();
  const Json* input = fields.find("input");
  if (!input) bad_field("input", "is missing", "missing_required_parameter");
  const std::vector<Prompt> texts = read_texts(*input, "input", limits.vocabulary);
  if (texts.size() > 2048)
    bad_field("input", fmt::format("{} texts, expected at most 2048", texts.size()), "invalid_value");
  const std::string* format = fields.string("encoding_format");
  if (format && *format != "float" && *format != "base64")
    bad_field("encoding_format", fmt::format("'{}', expected 'float' or 'base64'", *format), "invalid_value");
  const bool base64 = format && *format == "base64";
  const bool normalise = fields.boolean("normalize").value_or(true);
  const std::int64_t dimensions = read_dimensions(fields, card);
  const model::Pooling pooling = read_pooling(fields, card);
  auto encoded = encode_texts(texts, "input", context.service.tokenizer(),
                              {.context = card.context - (card.generates ? 1 : 0),
                               .most = context.options.max_prompt,
                               .cut = fields.boolean("truncate").value_or(false)});
  compute_vectors(exchange, std::move(encoded), pooling, [=, name = card.name](Vectors vectors) {
    Json data = Json::array();
    for (std::size_t i = 0; i < vectors.rows.size(); ++i) {
      std::vector<float>& row = vectors.rows[i];
      settle_vector(row, dimensions, normalise);
      Json item{{"object", "embedding"}, {"index", i}};
      item["embedding"] = base64 ? Json(base64_of(row)) : Json(row);
      data.push_back(std::move(item));
    }
    return Json{{"object", "list"},
                {"data", std::move(data)},
                {"model", name},
                {"usage", {{"prompt_tokens", vectors.tokens}, {"total_tokens", vectors.tokens}}},
                {"kvasir", {{"pooling", model::name(pooling)}, {"normalized", normalise}}}};
  });
}

}  // namespace

const Route entry{
    .method = "POST", .path = "/v1/embeddings", .open = false, .handle = handle_embeddings, .needs_model = true};

}  // namespace kvasir::serve::routes_embeddings
