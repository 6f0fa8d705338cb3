// What tools made for llama.cpp's server ask of it: context, slots, template.
#include <nlohmann/json.hpp>

#include "serve/chat.hpp"
#include "serve/choose_model.hpp"
#include "serve/exchange.hpp"
#include "serve/roster.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_props {
namespace {

// Of a server with several models: of the one that the query names, or of the first. It is not loaded for this; what
// only a loaded model knows is then empty.
void handle_props(Context& home, const std::shared_ptr<Exchange>& exchange) {
  Roster* const roster = home.shared->roster;
  const std::string wanted = model_in_query(exchange->request().query);
  const auto loaded = roster ? roster->peek(wanted) : nullptr;
  Context& context = loaded ? *loaded : home;
  const Roster::Entry entry = roster ? roster->entry(wanted) : Roster::Entry::of(context);
  const run::ModelCard& card = entry.card;
  const text::Tokenizer* tokenizer = context.service.tokenizer();
  const auto piece = [&](std::int32_t id) {
    return tokenizer && id >= 0 ? std::string(tokenizer->piece(id)) : std::string();
  };
  const auto preset = [&](const char* name, double otherwise) { return card.sampling.get(name, otherwise); };
  Json props = {{"default_generation_settings",
                 {{"n_ctx", card.context},
                  {"params",
                   {{"temperature", preset("temperature", 1)},
                    {"top_k", static_cast<std::int64_t>(preset("top_k", 0))},
                    {"top_p", preset("top_p", 1)},
                    {"min_p", preset("min_p", 0)},
                    {"n_predict", -1}}}}},
                {"total_slots", card.running},
                {"model_alias", card.name},
                {"model_path", card.name},
                {"modalities", {{"vision", entry.vision}, {"audio", entry.audio}}},
                {"chat_template", context.chat ? std::string(context.chat->source())
                                  : roster     ? card.chat_template
                                               : ""},
                {"bos_token", piece(tokenizer ? tokenizer->bos() : -1)},
                {"eos_token", piece(tokenizer ? tokenizer->eos() : -1)},
                {"build_info", context.fingerprint},
                {"is_sleeping", roster && !loaded}};
  if (roster) {
    props["models"] = Json::array();
    for (const Roster::Entry& m : roster->list())
      props["models"].push_back({{"name", m.card.name}, {"loaded", m.loaded}, {"bytes", m.bytes}});
  }
  exchange->reply(json_response(props));
}

}  // namespace

const Route entry{.method = "GET", .path = "/props", .open = false, .handle = handle_props};

}  // namespace kvasir::serve::routes_props
