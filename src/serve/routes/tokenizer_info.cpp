// What vLLM says of a tokenizer, with which lm-eval asks this server to encode (tokenizer_backend=remote).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/chat.hpp"
#include "serve/choose_model.hpp"
#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_tokenizer_info {
namespace {

// Of a server with several models: of the one that the query names, or of the first, once it is loaded.
void handle_info(Context& home, const std::shared_ptr<Exchange>& exchange) {
  Roster* const roster = home.shared->roster;
  const std::string wanted = model_in_query(exchange->request().query);
  const auto loaded = roster ? roster->peek(wanted) : nullptr;
  if (roster && !loaded)
    throw ApiException({.status = 503,
                        .message = fmt::format("the model '{}' is not loaded", roster->entry(wanted).card.name),
                        .type = "server_error",
                        .param = "model",
                        .code = "model_not_loaded"});
  Context& context = loaded ? *loaded : home;
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  if (!tokenizer) throw ApiException({.status = 501, .message = "this model has no tokenizer", .code = "unsupported"});
  const auto piece = [&](std::int32_t id) { return id >= 0 ? Json(std::string(tokenizer->piece(id))) : Json(nullptr); };
  exchange->reply(
      json_response({{"tokenizer_class", "KvasirTokenizer"},
                     {"bos_token", piece(tokenizer->bos())},
                     {"eos_token", piece(tokenizer->eos())},
                     {"add_bos_token", tokenizer->add_bos()},
                     {"add_eos_token", tokenizer->add_eos()},
                     {"vocab_size", tokenizer->size()},
                     {"model_max_length", context.service.card().context},
                     {"chat_template", context.chat ? Json(std::string(context.chat->source())) : Json()}}));
}

}  // namespace

const Route entry{.method = "GET", .path = "/tokenizer_info", .open = false, .handle = handle_info};

}  // namespace kvasir::serve::routes_tokenizer_info
