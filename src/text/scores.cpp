#include "text/scores.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"

namespace kvasir::text {

std::vector<float> read_scores(const weights::Metadata& metadata, const Vocabulary& vocabulary) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  const auto fail = [&](const std::string& message) {
    throw Error(Code::kBadInput, message, metadata.path() + ": " + kScores);
  };
  const auto* given = metadata.get_floats(kScores);
  if (!given) fail("is missing, expected the scores of a SentencePiece vocabulary");
  if (given->size() != static_cast<std::size_t>(vocabulary.size())) {
    fail(fmt::format("has {} entries, expected {}, one per token", given->size(), vocabulary.size()));
  }
  std::vector<float> scores;
  scores.reserve(given->size());
  for (std::size_t i = 0; i < given->size(); ++i) {
    if (std::isnan((*given)[i])) fail(fmt::format("entry {} is not a number", i));
    scores.push_back(static_cast<float>((*given)[i]));
  }
  return scores;
}

}  // namespace kvasir::text
