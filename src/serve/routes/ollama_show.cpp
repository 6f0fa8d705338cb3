// Ollama's description of a model. Body: `model` (or `name`).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/chat.hpp"
#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {
namespace {

Json capabilities(const Context& context) {
  Json all = Json::array({"completion"});
  if (context.chat && context.chat->knows_tools()) all.push_back("tools");
  if (context.chat && context.chat->knows_thinking()) all.push_back("thinking");
  return all;
}

void handle_show(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request().body);
  const Fields fields(body);
  const std::string* name = fields.string("model");
  if (!name) name = fields.string("name");
  if (!name) bad_field("model", "is missing", "missing_required_parameter");
  const run::ModelCard& card = context.service.card();
  if (!context.options.any_model && without_tag(*name) != card.name)
    throw ApiException({.status = 404, .message = fmt::format("model '{}' not found", *name), .param = "model"});
  const std::string& a = card.architecture;
  exchange->reply(json_response({{"modelfile", fmt::format("FROM {}\n", card.name)},
                                 {"parameters", ""},
                                 {"template", context.chat ? std::string(context.chat->source()) : ""},
                                 {"details", ollama_details(context)},
                                 {"model_info",
                                  {{"general.architecture", a},
                                   {"general.parameter_count", card.parameters},
                                   {a + ".context_length", card.context},
                                   {a + ".vocab_size", card.vocabulary}}},
                                 {"capabilities", capabilities(context)},
                                 {"modified_at", rfc3339(static_cast<double>(context.created))}}));
}

}  // namespace

extern const Route ollama_show;
const Route ollama_show{
    .method = "POST", .path = "/api/show", .open = false, .handle = handle_show, .error = ollama_error};

}  // namespace kvasir::serve::entries::routes
