// Ollama's description of a model. Body: `model` (or `name`).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/body.hpp"
#include "serve/chat.hpp"
#include "serve/exchange.hpp"
#include "serve/families/ollama.hpp"
#include "serve/model_json.hpp"
#include "serve/roster.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_ollama_show {
namespace {

void handle_show(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = parse_body(exchange->request().body);
  const Fields fields(body);
  const std::string* name = fields.string("model");
  if (!name) name = fields.string("name");
  if (!name) bad_field("model", "is missing", "missing_required_parameter");
  // Of a model that is not loaded, what its file says.
  const auto loaded = context.shared->roster ? context.shared->roster->peek(*name) : nullptr;
  const ChatFormat* const chat = loaded ? loaded->chat : context.chat;
  const Roster::Entry entry =
      context.shared->roster ? context.shared->roster->entry(*name) : Roster::Entry::of(context);
  const run::ModelCard& card = entry.card;
  if (!context.options.any_model && without_tag(*name) != card.name)
    throw ApiException({.status = 404, .message = fmt::format("model '{}' not found", *name), .param = "model"});
  const std::string& a = card.architecture;
  exchange->reply(json_response({{"modelfile", fmt::format("FROM {}\n", card.name)},
                                 {"parameters", ""},
                                 {"template", chat ? std::string(chat->source()) : card.chat_template},
                                 {"details", ollama_details(card)},
                                 {"model_info",
                                  {{"general.architecture", a},
                                   {"general.parameter_count", card.parameters},
                                   {a + ".context_length", card.context},
                                   {a + ".vocab_size", card.vocabulary}}},
                                 {"capabilities", ollama_capabilities(entry)},
                                 {"modified_at", rfc3339(static_cast<double>(context.created))}}));
}

}  // namespace

const Route entry{.method = "POST", .path = "/api/show", .open = false, .handle = handle_show, .error = ollama_error};

}  // namespace kvasir::serve::routes_ollama_show
