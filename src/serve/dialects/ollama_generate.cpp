// Ollama's /api/generate.
#include "serve/families/ollama.hpp"

namespace kvasir::serve::entries::dialects {

extern const Dialect ollama_generate;
const Dialect ollama_generate{
    .path = "/api/generate", .parse = parse_ollama_generate, .writer = ollama_generate_writer, .error = ollama_error};

}  // namespace kvasir::serve::entries::dialects
