// The scores of a SentencePiece vocabulary.
#pragma once

#include <vector>

#include "text/vocabulary.hpp"
#include "weights/model_file.hpp"

namespace kvasir::text {

// tokenizer.ggml.scores: one per token, none of them NaN. Throws Error(kBadInput) naming file and key.
std::vector<float> read_scores(const weights::Metadata& metadata, const Vocabulary& vocabulary);

}  // namespace kvasir::text
