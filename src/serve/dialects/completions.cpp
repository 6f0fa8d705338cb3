// Text that goes on: https://platform.openai.com/docs/api-reference/completions
#include "serve/families/openai.hpp"

namespace kvasir::serve::dialects_completions {

const Dialect entry{.path = "/v1/completions", .parse = parse_completion, .writer = openai_writer};

}  // namespace kvasir::serve::dialects_completions
