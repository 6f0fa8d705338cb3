// How well documents answer a question, for models with a head that ranks: what /v1/rerank and the library do alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "run/service.hpp"

namespace kvasir::run {

struct RankOptions {
  bool raw = false;
};
const OptionTable<RankOptions>& rank_table();

// A question and a document as the model reads them.
struct RankPair {
  std::vector<std::int32_t> ids;
  std::int64_t second = -1;  // see Request; -1: they stand in the words of a template
};
RankPair encode_pair(const ModelCard& card, const text::Tokenizer& tokenizer, const std::string& query,
                     const std::string& document);

// Of the head's scores: the sigmoid of a single one, of two or more the first one's probability; raw: the first itself.
double relevance(std::span<const float> scores, bool raw);

// The relevance of every document, in their order. Throws Error: kUnsupported for a model without such a head,
// kBadInput for what does not fit into its context. REQUIRES: the service has a tokenizer.
std::vector<double> rank(Service& service, const std::string& query, std::span<const std::string> documents,
                         const RankOptions& options);

}  // namespace kvasir::run
