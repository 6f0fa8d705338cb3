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
  std::unique_ptr<AnswerParser> parser(const ChatInput& input) const override;

 private:
  text::ChatTemplate template_;
};

}  // namespace kvasir::serve
