// The models of this server, in the form of OpenAI and in that of Anthropic at once.
#include "serve/exchange.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_models {

const Route entry{.method = "GET",
                  .path = "/v1/models",
                  .open = false,
                  .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                    Json data = Json::array();
                    for (const Roster::Entry& m : known_models(context)) data.push_back(model_json(context, m));
                    Json list{{"object", "list"}, {"has_more", false}, {"first_id", nullptr}, {"last_id", nullptr}};
                    if (!data.empty()) list["first_id"] = data.front()["id"], list["last_id"] = data.back()["id"];
                    list["data"] = std::move(data);
                    exchange->reply(json_response(list));
                  }};

}  // namespace kvasir::serve::routes_models
