// Ranks documents; the form of Jina's and Cohere's APIs, as llama.cpp's server has it.
#include "serve/families/rerank.hpp"

#include "serve/route.hpp"

namespace kvasir::serve::routes_rerank {

const Route entry{.method = "POST", .path = "/v1/rerank", .open = false, .handle = answer_rerank, .needs_model = true};

}  // namespace kvasir::serve::routes_rerank
