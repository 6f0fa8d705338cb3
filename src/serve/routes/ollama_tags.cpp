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
                          const Roster* const roster = context.shared->roster;
                          const auto loaded = roster && m.loaded ? context.shared->roster->peek(m.card.name) : nullptr;
                          model["capabilities"] = ollama_capabilities(loaded ? loaded->chat : context.chat, m.vision);
                          models.push_back(std::move(model));
                        }
                        exchange->reply(json_response({{"models", std::move(models)}}));
                      },
                  .error = ollama_error};

}  // namespace kvasir::serve::routes_ollama_tags
