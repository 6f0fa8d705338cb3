// Chats by the model's own template.
#pragma once

#include <memory>
#include <string_view>

#include "serve/chat.hpp"
#include "text/chat.hpp"

namespace kvasir::serve {

class TemplateChat final : public ChatFormat {
 public:
  explicit TemplateChat(text::ChatTemplate chat_template) : template_(std::move(chat_template)) {}
  std::string render(const ChatInput& input) const override;
  text::Prompt prompt(const ChatInput& input, const text::Tokenizer& tokenizer) const override;
  std::optional<text::Place> place(const ChatInput& input, std::size_t at) const override;
  std::unique_ptr<AnswerParser> parser(const ChatInput& input) const override;
  std::shared_ptr<const text::Grammar> calls(const ChatInput& input) const override;

 private:
  text::ChatTemplate template_;
};

}  // namespace kvasir::serve
