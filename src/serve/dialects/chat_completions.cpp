// Chats: https://platform.openai.com/docs/api-reference/chat
#include "serve/families/openai.hpp"

namespace kvasir::serve::dialects_chat_completions {

const Dialect entry{.path = "/v1/chat/completions", .parse = parse_chat, .writer = openai_writer};

}  // namespace kvasir::serve::dialects_chat_completions
