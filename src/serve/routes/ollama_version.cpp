// The version of Ollama whose API this is: clients refuse older ones.
#include <nlohmann/json.hpp>

#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_ollama_version {

const Route entry{.method = "GET",
                  .path = "/api/version",
                  .open = false,
                  .handle =
                      [](Context&, const std::shared_ptr<Exchange>& exchange) {
                        exchange->reply(json_response({{"version", "0.33.0"}, {"server", "kvasir"}}));
                      },
                  .error = ollama_error};

}  // namespace kvasir::serve::routes_ollama_version
