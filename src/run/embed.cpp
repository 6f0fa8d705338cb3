#include "run/embed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "run/ask.hpp"

namespace kvasir::run {

const OptionTable<EmbedOptions>& embed_table() {
  using O = EmbedOptions;
  static const OptionTable<O> t{
      "embed",
      {{"pooling",
        &O::pooling,
        {.help =
             "mean, cls (the first token) or last; for the command alone rank, too: the scores of a model that ranks; "
             "default: what the model file says",
         .placeholder = "KIND"}},
       {"dimensions", &O::dimensions, {.help = "only the first N elements; 0 is all", .low = 0, .high = 1 << 24}},
       {"raw", &O::raw, {.help = "do not divide vectors by their length"}}}};
  return t;
}

model::Pooling pooling_of(const EmbedOptions& o, const ModelCard& card) {
  if (o.dimensions > card.width)
    throw Error(Code::kBadInput, fmt::format("{}, expected at most the model's {}", o.dimensions, card.width),
                "--dimensions");
  if (o.pooling.empty()) return card.pooling;
  for (const model::Pooling p : {model::Pooling::kMean, model::Pooling::kCls, model::Pooling::kLast})
    if (o.pooling == model::name(p)) return p;
  throw Error(Code::kBadInput, "'" + o.pooling + "', expected mean, cls or last", "--pooling");
}

Embedding embed(Service& service, std::string_view text, const EmbedOptions& options) {
  const text::Tokenizer& tokenizer = *service.tokenizer();
  return embed_tokens(service, tokenizer.encode(text, {.add_bos = tokenizer.add_bos(), .add_eos = tokenizer.add_eos()}),
                      pooling_of(options, service.card()), options);
}

Embedding embed_tokens(Service& service, std::vector<std::int32_t> ids, model::Pooling pooling,
                       const EmbedOptions& options) {
  ServiceRequest r;
  r.request.pooling = pooling;
  r.request.max_tokens = 0;
  r.reuse = false;
  r.request.prompt = std::move(ids);
  Embedding out{.tokens = static_cast<std::int64_t>(r.request.prompt.size())};
  out.vector = ask(service, std::move(r)).vector;
  if (pooling != model::Pooling::kRank) settle_vector(out.vector, options.dimensions, !options.raw);
  return out;
}

void settle_vector(std::vector<float>& vector, std::int64_t dimensions, bool normalise) {
  if (dimensions > 0) vector.resize(std::min(vector.size(), static_cast<std::size_t>(dimensions)));
  if (!normalise) return;
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  if (squares <= 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) * scale);
}

}  // namespace kvasir::run
