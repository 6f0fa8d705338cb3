// Computes a prompt's pages and keeps them (`pin`, true unless the body says otherwise), so that requests that begin
// with it start at once. Body: `prompt` or `messages` as of a completion or a chat.
#include "serve/families/openai.hpp"

namespace kvasir::serve::dialects_warm {

const Dialect entry{.path = "/v1/warm", .parse = parse_warm, .writer = openai_writer};

}  // namespace kvasir::serve::dialects_warm
