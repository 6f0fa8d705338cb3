// Computes a prompt's pages and keeps them (`pin`, true unless the body says otherwise), so that requests that begin
// with it start at once. Body: `prompt` or `messages` as of a completion or a chat.
#include "serve/generate_route.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route warm;
const Route warm{.method = "POST",
                 .path = "/v1/warm",
                 .open = false,
                 .handle = [](Context&, const std::shared_ptr<Exchange>& exchange) { generate(exchange, parse_warm); }};

}  // namespace kvasir::serve::entries::routes
