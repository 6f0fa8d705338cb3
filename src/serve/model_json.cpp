#include "serve/model_json.hpp"

namespace kvasir::serve {

std::vector<Roster::Entry> known_models(const Context& context) {
  if (const Roster* roster = context.shared->roster) return roster->list();
  return {{.card = context.service.card(), .chats = context.chat != nullptr, .loaded = true}};
}

Json model_json(const Context& context, const Roster::Entry& model) {
  const run::ModelCard& card = model.card;
  return {{"id", card.name},
          {"object", "model"},
          {"created", context.created},
          {"owned_by", "kvasir"},
          {"max_model_len", card.context},
          {"kvasir",
           {{"architecture", card.architecture},
            {"vocabulary", card.vocabulary},
            {"k_codec", card.k_codec},
            {"v_codec", card.v_codec},
            {"kv", card.kv},
            {"kv_bytes_per_token", card.kv_token},
            {"kv_f16_bytes_per_token", card.kv_token_f16},
            {"chat", model.chats},
            {"loaded", model.loaded}}}};
}

}  // namespace kvasir::serve
