// Ollama's /api/chat.
#include "serve/families/ollama.hpp"

namespace kvasir::serve::dialects_ollama_chat {

const Dialect entry{
    .path = "/api/chat", .parse = parse_ollama_chat, .writer = ollama_chat_writer, .error = ollama_error};

}  // namespace kvasir::serve::dialects_ollama_chat
