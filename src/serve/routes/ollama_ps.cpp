// Ollama's list of models in memory. They stay there until another one needs their room.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_ollama_ps {
namespace {

void handle_ps(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json models = Json::array();
  for (const Roster::Entry& m : known_models(context)) {
    if (!m.loaded) continue;
    Json model = ollama_model(context, m.card);
    model.erase("modified_at");
    if (m.bytes > 0) model["size"] = m.bytes;             // of memory
    model["expires_at"] = "2318-01-01T00:00:00.000000Z";  // Ollama's for a keep_alive of -1
    model["size_vram"] = 0;
    model["context_length"] = m.card.context;
    models.push_back(std::move(model));
  }
  exchange->reply(json_response({{"models", std::move(models)}}));
}

}  // namespace

const Route entry{.method = "GET", .path = "/api/ps", .open = false, .handle = handle_ps, .error = ollama_error};

}  // namespace kvasir::serve::routes_ollama_ps
