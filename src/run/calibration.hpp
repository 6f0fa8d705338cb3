// What a built-in text shows of a model's queries and keys.
#pragma once

#include <cstdint>
#include <vector>

#include "base/team.hpp"
#include "model/key_factors.hpp"
#include "model/model.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::run {

// The text, at most `most` tokens of it: always the same, so that what is stored fits every later start.
std::vector<std::int32_t> calibration_tokens(const text::Tokenizer& tokenizer, std::int64_t most);

// `known`, and of layers that may have factors of keys what the text shows, which runs through the model with a cache
// of its own. Nothing is run where no layer may, or the model's context does not hold kAutoLeastTokens of the text.
// sinks: tokens left out in front. Does not depend on the number of threads.
model::KeyFacts calibrate(Team& team, const model::Model& model, const text::Tokenizer& tokenizer, int sinks,
                          const model::KeyFacts& known);

}  // namespace kvasir::run
