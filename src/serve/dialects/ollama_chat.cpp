// Ollama's /api/chat.
#include "serve/families/ollama.hpp"

namespace kvasir::serve::entries::dialects {

extern const Dialect ollama_chat;
const Dialect ollama_chat{
    .path = "/api/chat", .parse = parse_ollama_chat, .writer = ollama_chat_writer, .error = ollama_error};

}  // namespace kvasir::serve::entries::dialects
