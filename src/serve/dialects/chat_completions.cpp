// Chats: https://platform.openai.com/docs/api-reference/chat
#include "serve/families/openai.hpp"

namespace kvasir::serve::entries::dialects {

extern const Dialect chat_completions;
const Dialect chat_completions{.path = "/v1/chat/completions", .parse = parse_chat, .writer = openai_writer};

}  // namespace kvasir::serve::entries::dialects
