// Documents by how well they answer a question, for models with a head that ranks.
#pragma once

#include <memory>

#include "serve/exchange.hpp"

namespace kvasir::serve {

// Body: `query`, `documents` (strings, or objects with a `text`), `top_n`, `return_documents`, `raw_scores`,
// `truncate`. `relevance_score` is the sigmoid of the head's score, of two labels or more the first one's probability,
// with `raw_scores` the first score itself. Throws ApiException: 501 for other models.
void answer_rerank(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvasir::serve
