#include "cli/chat_format.hpp"

namespace kvasir::cli {

std::unique_ptr<serve::TemplateChat> open_chat(const std::string& from_model, const text::Tokenizer& tokenizer,
                                               const std::string& path, const std::string& model) {
  if (path.empty() && from_model.empty()) return nullptr;
  const auto piece = [&](std::int32_t id) { return id >= 0 ? std::string(tokenizer.piece(id)) : std::string(); };
  return std::make_unique<serve::TemplateChat>(text::ChatTemplate(text::chat_template_text(from_model, path, model),
                                                                  piece(tokenizer.bos()), piece(tokenizer.eos())));
}

}  // namespace kvasir::cli
