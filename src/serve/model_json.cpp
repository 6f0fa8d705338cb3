#include "serve/model_json.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace kvasir::serve {
namespace {

std::string rfc3339_seconds(std::int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

}  // namespace

std::vector<Roster::Entry> known_models(const Context& context) {
  if (const Roster* roster = context.shared->roster) return roster->list();
  return {Roster::Entry::of(context)};
}

Json model_json(const Context& context, const Roster::Entry& model) {
  const run::ModelCard& card = model.card;
  Json modalities{"text"};
  if (model.vision) modalities.push_back("image");
  if (model.audio) modalities.push_back("audio");
  return {{"id", card.name},
          {"object", "model"},
          {"type", "model"},
          {"display_name", card.name},
          {"created_at", rfc3339_seconds(context.created)},
          {"max_input_tokens", card.context},
          {"max_tokens", card.context},
          {"created", context.created},
          {"owned_by", "kvasir"},
          {"max_model_len", card.context},
          {"input_modalities", modalities},
          {"kvasir",
           {{"architecture", card.architecture},
            {"vocabulary", card.vocabulary},
            {"k_codec", card.k_codec},
            {"v_codec", card.v_codec},
            {"kv", card.kv},
            {"kv_bytes_per_token", card.kv_token},
            {"kv_f16_bytes_per_token", card.kv_token_f16},
            {"chat", model.chats},
            {"vision", model.vision},
            {"audio", model.audio},
            {"loaded", model.loaded}}}};
}

}  // namespace kvasir::serve
