#include "run/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "run/ask.hpp"

namespace kvasir::run {

const OptionTable<RankOptions>& rank_table() {
  static const OptionTable<RankOptions> t{
      "rank", {{"raw", &RankOptions::raw, {.help = "the head's first score itself, not made a share"}}}};
  return t;
}

// The template's own words may spell control tokens, what stands in it may not.
static RankPair in_template(const std::string& words, const text::Tokenizer& tokenizer, const std::string& query,
                            const std::string& document) {
  RankPair out;
  bool begun = false;
  const auto add = [&](std::string_view text, bool own) {
    if (text.empty()) return;
    const auto ids =
        tokenizer.encode(text, {.add_bos = !begun && tokenizer.add_bos(), .parse_special = own, .behind_text = begun});
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    begun = true;
  };
  std::string_view rest = words;
  while (!rest.empty()) {
    const std::size_t q = rest.find("{query}"), d = rest.find("{document}"), at = std::min(q, d);
    add(rest.substr(0, at), true);
    if (at == rest.npos) break;
    add(at == q ? query : document, false);
    rest.remove_prefix(at + (at == q ? std::string_view("{query}") : std::string_view("{document}")).size());
  }
  return out;
}

RankPair encode_pair(const ModelCard& card, const text::Tokenizer& tokenizer, const std::string& query,
                     const std::string& document) {
  if (!card.rank_template.empty()) return in_template(card.rank_template, tokenizer, query, document);
  RankPair out{tokenizer.encode(query, {.add_bos = tokenizer.add_bos(), .add_eos = tokenizer.add_eos()})};
  if (card.two_separators && tokenizer.add_eos()) out.ids.push_back(tokenizer.eos());
  out.second = static_cast<std::int64_t>(out.ids.size());
  const auto behind = tokenizer.encode(document, {.add_eos = tokenizer.add_eos()});
  out.ids.insert(out.ids.end(), behind.begin(), behind.end());
  return out;
}

double relevance(std::span<const float> scores, bool raw) {
  const auto first = static_cast<double>(scores.front());
  if (raw) return first;
  if (scores.size() == 1) return 1 / (1 + std::exp(-first));
  double sum = 0;
  for (const float s : scores) sum += std::exp(static_cast<double>(s) - first);
  return 1 / sum;
}

std::vector<double> rank(Service& service, const std::string& query, std::span<const std::string> documents,
                         const RankOptions& options) {
  if (service.card().labels == 0)
    throw Error(Code::kUnsupported, "has no head that ranks (cls.output.weight), expected a reranker",
                service.card().name);
  std::vector<double> out;
  for (const std::string& document : documents) {
    RankPair pair = encode_pair(service.card(), *service.tokenizer(), query, document);
    ServiceRequest r;
    r.request.prompt = std::move(pair.ids);
    r.request.second = pair.second;
    r.request.max_tokens = 0;
    r.request.pooling = model::Pooling::kRank;
    r.reuse = false;
    const std::vector<float> scores = ask(service, std::move(r)).vector;
    if (scores.empty() || !std::all_of(scores.begin(), scores.end(), [](float x) { return std::isfinite(x); }))
      throw Error(Code::kUnsupported, "gave no numbers for a document", service.card().name);
    out.push_back(relevance(scores, options.raw));
  }
  return out;
}

}  // namespace kvasir::run
