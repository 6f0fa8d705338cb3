// Text that goes on: https://platform.openai.com/docs/api-reference/completions
#include "serve/families/openai.hpp"

namespace kvasir::serve::entries::dialects {

extern const Dialect completions;
const Dialect completions{.path = "/v1/completions", .parse = parse_completion, .writer = openai_writer};

}  // namespace kvasir::serve::entries::dialects
