// Ollama's list of models: one.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {

extern const Route ollama_tags;
const Route ollama_tags{.method = "GET",
                        .path = "/api/tags",
                        .open = false,
                        .handle =
                            [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                              exchange->reply(json_response({{"models", Json::array({ollama_model(context)})}}));
                            },
                        .error = ollama_error};

}  // namespace kvasir::serve::entries::routes
