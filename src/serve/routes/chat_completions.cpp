// Chats: https://platform.openai.com/docs/api-reference/chat
#include "serve/generate_route.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route chat_completions;
const Route chat_completions{
    .method = "POST",
    .path = "/v1/chat/completions",
    .open = false,
    .handle = [](Context&, const std::shared_ptr<Exchange>& exchange) { generate(exchange, parse_chat); }};

}  // namespace kvasir::serve::entries::routes
