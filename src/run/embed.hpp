// The vector of a text: what `kvasir embed` and the library do alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"
#include "run/service.hpp"

namespace kvasir::run {

struct EmbedOptions {
  std::string pooling;  // empty: as the model says
  std::int32_t dimensions = 0;
  bool raw = false;
};
const OptionTable<EmbedOptions>& embed_table();

// Throws Error(kBadInput) for what is none, and for more dimensions than the model has.
model::Pooling pooling_of(const EmbedOptions& options, const ModelCard& card);

struct Embedding {
  std::vector<float> vector;
  std::int64_t tokens = 0;
};
// With BOS and EOS as the vocabulary wants them. Throws as pooling_of and ask. REQUIRES: the service has a tokenizer.
Embedding embed(Service& service, std::string_view text, const EmbedOptions& options);

// The same of token ids, by this pooling; scores of the model's head with Pooling::kRank, which are left as they are.
Embedding embed_tokens(Service& service, std::vector<std::int32_t> ids, model::Pooling pooling,
                       const EmbedOptions& options);

// The first `dimensions` elements (0: all), divided by their length where it is not 0.
void settle_vector(std::vector<float>& vector, std::int64_t dimensions, bool normalise);

}  // namespace kvasir::run
