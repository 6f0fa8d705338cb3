#include "serve/miss.hpp"

#include <fmt/format.h>

namespace kvasir::serve {

Json locate_token(const ApiRequest& request, const EncodedPrompt& prompt, std::int64_t token,
                  const text::Tokenizer* tokenizer, const ChatFormat* chat, std::string* words) {
  words->clear();
  if (!tokenizer || prompt.text.empty()) return nullptr;
  const auto byte = byte_of_token(*tokenizer, prompt, static_cast<std::size_t>(token));
  if (!byte) return nullptr;
  if (!request.is_chat) {
    *words = fmt::format("byte {} of the prompt", *byte);
    return {{"token", token}, {"byte", *byte}};
  }
  const std::optional<text::Place> place = chat ? chat->place(request.chat, prompt.in_template(*byte)) : std::nullopt;
  if (!place) return nullptr;
  *words = text::describe(*place);
  Json out{{"token", token}};
  if (place->message >= 0 && place->message < place->messages) {
    out["message"] = place->message;
    out["role"] = place->role;
  }
  if (place->byte >= 0) out["byte"] = place->byte;
  return out;
}

}  // namespace kvasir::serve
