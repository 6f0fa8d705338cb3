#include "serve/families/rerank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "run/rank.hpp"
#include "serve/body.hpp"
#include "serve/embedding.hpp"
#include "serve/generate_route.hpp"
#include "serve/texts.hpp"

namespace kvasir::serve {
namespace {

std::vector<std::string> read_documents(const Fields& fields) {
  const Json* documents = fields.array("documents");
  if (!documents) documents = fields.array("texts");  // as text-embeddings-inference calls them
  if (!documents) bad_field("documents", "is missing", "missing_required_parameter");
  if (documents->empty()) bad_field("documents", "is empty, expected at least one document", "invalid_value");
  if (documents->size() > 2048)
    bad_field("documents", fmt::format("{} of them, expected at most 2048", documents->size()), "invalid_value");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < documents->size(); ++i) {
    const Json& item = (*documents)[i];
    const std::string field = fmt::format("documents[{}]", i);
    if (item.is_string()) {
      texts.push_back(item.get<std::string>());
      continue;
    }
    const Fields document(item, field + ".");
    const std::string* text = document.string("text");
    if (!text) bad_field(field + ".text", "is missing", "missing_required_parameter");
    texts.push_back(*text);
  }
  return texts;
}

}  // namespace

void answer_rerank(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& http = exchange->request();
  const Json body = parse_body(http.body);
  const Fields fields(body);
  check_model(fields, request_limits(context, http));
  const run::ModelCard& card = context.service.card();
  if (card.labels == 0)
    throw ApiException(
        {.status = 501,
         .message = fmt::format("'{}' has no head that ranks (cls.output.weight): serve a reranker", card.name),
         .code = "unsupported"});
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  if (!tokenizer) throw ApiException({.status = 501, .message = "this model has no tokenizer", .code = "unsupported"});
  const std::string* query = fields.string("query");
  if (!query) bad_field("query", "is missing", "missing_required_parameter");
  std::vector<std::string> documents = read_documents(fields);
  const auto count = static_cast<std::int64_t>(documents.size());
  const std::int64_t top = fields.integer("top_n", 1, INT32_MAX).value_or(count);
  const bool show = fields.boolean("return_documents").value_or(false);
  const bool raw = fields.boolean("raw_scores").value_or(false);
  const TextLimits limits{.context = card.context - (card.generates ? 1 : 0),
                          .most = context.options.max_prompt,
                          .cut = fields.boolean("truncate").value_or(false)};
  std::vector<EncodedText> pairs;
  for (std::size_t i = 0; i < documents.size(); ++i)
    pairs.push_back(encode_pair(card, *tokenizer, *query, documents[i], fmt::format("documents[{}]", i), limits));
  compute_vectors(exchange, std::move(pairs), model::Pooling::kRank,
                  [=, name = card.name, documents = std::move(documents)](Vectors vectors) {
                    std::vector<std::size_t> order(vectors.rows.size());
                    std::iota(order.begin(), order.end(), std::size_t{0});
                    const auto score = [&](std::size_t i) { return run::relevance(vectors.rows[i], raw); };
                    std::stable_sort(order.begin(), order.end(),
                                     [&](std::size_t a, std::size_t b) { return score(a) > score(b); });
                    order.resize(static_cast<std::size_t>(std::min(top, count)));
                    Json results = Json::array();
                    for (const std::size_t i : order) {
                      results.push_back({{"index", i}, {"relevance_score", score(i)}});
                      if (show) results.back()["document"] = {{"text", documents[i]}};
                    }
                    return Json{{"model", name},
                                {"object", "list"},
                                {"usage", {{"prompt_tokens", vectors.tokens}, {"total_tokens", vectors.tokens}}},
                                {"results", std::move(results)}};
                  });
}

}  // namespace kvasir::serve
