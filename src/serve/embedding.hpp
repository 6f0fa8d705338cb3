// Requests for vectors of texts, and for ranks: from a body's texts to a whole answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/pooling.hpp"
#include "run/embed.hpp"
#include "serve/body.hpp"
#include "serve/exchange.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

// A text as the model reads it.
struct EncodedText {
  std::vector<std::int32_t> ids;
  std::int64_t second = -1;  // see run::Request
};

struct TextLimits {
  std::int64_t context = 0;
  std::int64_t most = 0;  // of the server; 0: none
  bool cut = false;       // the end of a text that is too long is left out, not refused
};

// With BOS and EOS as the vocabulary wants them; what the texts spell is text. Throws ApiException: no tokenizer for a
// text (501), no token in it (400), too many tokens (400 context_length_exceeded).
std::vector<EncodedText> encode_texts(const std::vector<Prompt>& texts, const std::string& field,
                                      const text::Tokenizer* tokenizer, const TextLimits& limits);

// A question and a document as a model that ranks reads them: in the words of its template, or as a pair of texts. Of a
// pair that is too long and may be cut the document loses its end.
EncodedText encode_pair(const run::ModelCard& card, const text::Tokenizer& tokenizer, const std::string& query,
                        const std::string& document, const std::string& field, const TextLimits& limits);

// What came of the texts, in their order.
struct Vectors {
  std::vector<std::vector<float>> rows;
  std::int64_t tokens = 0;
  double seconds = 0;  // from the request's arrival
};

// Has the service compute them, some at a time, and replies with what `answer` makes of them. Throws what
// Service::submit throws, and then nothing runs.
void compute_vectors(const std::shared_ptr<Exchange>& exchange, std::vector<EncodedText> texts, model::Pooling pooling,
                     std::function<Json(Vectors)> answer);

using run::settle_vector;

// "mean", "cls" or "last"; the card's without the field. Throws ApiException.
model::Pooling read_pooling(const Fields& fields, const run::ModelCard& card);
// 0 without the field. Throws ApiException beyond the card's width.
std::int64_t read_dimensions(const Fields& fields, const run::ModelCard& card);

}  // namespace kvasir::serve
