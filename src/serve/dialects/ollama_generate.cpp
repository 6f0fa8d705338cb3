// Ollama's /api/generate.
#include "serve/families/ollama.hpp"

namespace kvasir::serve::dialects_ollama_generate {

const Dialect entry{
    .path = "/api/generate", .parse = parse_ollama_generate, .writer = ollama_generate_writer, .error = ollama_error};

}  // namespace kvasir::serve::dialects_ollama_generate
