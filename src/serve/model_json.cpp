#include "serve/model_json.hpp"

namespace kvasir::serve {

Json model_json(const Context& context) {
  const run::ModelCard& card = context.service.card();
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
            {"chat", context.chat != nullptr}}}};
}

}  // namespace kvasir::serve
