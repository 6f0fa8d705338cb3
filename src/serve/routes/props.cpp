// What tools made for llama.cpp's server ask of it: context, slots, template.
#include <nlohmann/json.hpp>

#include "serve/chat.hpp"
#include "serve/exchange.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::entries::routes {
namespace {

void handle_props(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const run::ModelCard& card = context.service.card();
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  const auto piece = [&](std::int32_t id) {
    return tokenizer && id >= 0 ? std::string(tokenizer->piece(id)) : std::string();
  };
  exchange->reply(json_response(
      {{"default_generation_settings",
        {{"n_ctx", card.context},
         {"params", {{"temperature", 1.0}, {"top_k", 0}, {"top_p", 1.0}, {"min_p", 0.0}, {"n_predict", -1}}}}},
       {"total_slots", card.running},
       {"model_alias", card.name},
       {"model_path", card.name},
       {"modalities", {{"vision", false}, {"audio", false}}},
       {"chat_template", context.chat ? std::string(context.chat->source()) : ""},
       {"bos_token", piece(tokenizer ? tokenizer->bos() : -1)},
       {"eos_token", piece(tokenizer ? tokenizer->eos() : -1)},
       {"build_info", context.fingerprint},
       {"is_sleeping", false}}));
}

}  // namespace

extern const Route props;
const Route props{.method = "GET", .path = "/props", .open = false, .handle = handle_props};

}  // namespace kvasir::serve::entries::routes
