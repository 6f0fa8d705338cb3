// Ollama's list of models.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_ollama_tags {

const Route entry{.method = "GET",
                  .path = "/api/tags",
                  .open = false,
                  .handle =
                      [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                        Json models = Json::array();
                        for (const Roster::Entry& m : known_models(context)) {
                          Json model = ollama_model(context, m.card);
                          model["capabilities"] = ollama_capabilities(m);
                          models.push_back(std::move(model));
                        }
                        exchange->reply(json_response({{"models", std::move(models)}}));
                      },
                  .error = ollama_error};

}  // namespace kvasir::serve::routes_ollama_tags
