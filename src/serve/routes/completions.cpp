// Text that goes on: https://platform.openai.com/docs/api-reference/completions
#include "serve/generate_route.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route completions;
const Route completions{
    .method = "POST",
    .path = "/v1/completions",
    .open = false,
    .handle = [](Context&, const std::shared_ptr<Exchange>& exchange) { generate(exchange, parse_completion); }};

}  // namespace kvasir::serve::entries::routes
