#include "cli/chat_format.hpp"

#include <map>

#include "base/error.hpp"

namespace kvasir::cli {

std::unique_ptr<serve::TemplateChat> open_chat(const std::string& from_model, const text::Tokenizer& tokenizer,
                                               const std::string& path, const std::string& model,
                                               const std::vector<std::pair<std::string, std::string>>& named,
                                               const std::string& response) {
  std::string own = from_model;
  if (own.empty() && !named.empty()) own = named.front().second;
  if (path.empty() && own.empty()) return nullptr;
  const auto piece = [&](std::int32_t id) { return id >= 0 ? std::string(tokenizer.piece(id)) : std::string(); };
  const std::string bos = piece(tokenizer.bos()), eos = piece(tokenizer.eos());
  const auto learn = [&](text::ChatTemplate& chat) {
    chat.learn_tokens([&](std::string_view name) {
      const std::int32_t id = tokenizer.find(name);
      return id >= 0 && tokenizer.is_special(id);
    });
    if (!response.empty()) chat.use_response(response);
  };
  std::map<std::string, text::ChatTemplate, std::less<>> others;
  if (path.empty())
    for (const auto& [name, text] : named) {
      try {
        learn(others.try_emplace(name, text, bos, eos).first->second);
      } catch (const Error&) {
      }
    }
  const std::string text = text::chat_template_text(own, path, model);
  try {
    text::ChatTemplate chat(text, bos, eos);
    learn(chat);
    return std::make_unique<serve::TemplateChat>(std::move(chat), std::move(others));
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), path.empty() ? model : path);
  }
}

}  // namespace kvasir::cli
