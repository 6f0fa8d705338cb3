// Ollama's list of models in memory: the one, for as long as the server runs.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route ollama_ps;
const Route ollama_ps{.method = "GET",
                      .path = "/api/ps",
                      .open = false,
                      .handle =
                          [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                            Json model = ollama_model(context);
                            model.erase("modified_at");
                            model["expires_at"] = "2318-01-01T00:00:00.000000Z";  // Ollama's for a keep_alive of -1
                            model["size_vram"] = 0;
                            model["context_length"] = context.service.card().context;
                            exchange->reply(json_response({{"models", Json::array({std::move(model)})}}));
                          },
                      .error = ollama_error};

}  // namespace kvasir::serve::entries::routes
