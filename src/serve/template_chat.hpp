// Chats by the model's own template.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "serve/chat.hpp"
#include "text/chat.hpp"

namespace kvasir::serve {

class TemplateChat final : public ChatFormat {
 public:
  // `named`: further templates. Chats with tools use the one called "tool_use", and a request may name one.
  explicit TemplateChat(text::ChatTemplate chat_template,
                        std::map<std::string, text::ChatTemplate, std::less<>> named = {})
      : template_(std::move(chat_template)), named_(std::move(named)) {}
  std::string render(const ChatInput& input) const override;
  text::Prompt prompt(const ChatInput& input, const text::Tokenizer& tokenizer) const override;
  std::optional<text::Place> place(const ChatInput& input, std::size_t at) const override;
  std::unique_ptr<AnswerParser> parser(const ChatInput& input, const AnswerStart& start) const override;
  std::string_view source() const override { return template_.source(); }
  bool knows_tools() const override { return template_.traits().shows_tools(); }
  bool knows_thinking() const override { return template_.shows_thinking(); }
  std::shared_ptr<const text::Grammar> calls(const ChatInput& input,
                                             const std::function<text::Grammar::Node(text::Grammar&)>& otherwise,
                                             text::Warnings& warnings) const override;
  std::shared_ptr<const text::Grammar> other_calls_forbidden(const ChatInput& input,
                                                             text::Warnings& warnings) const override;
  ThinkingEnd thinking_end(const ChatInput& input) const override;
  std::vector<std::string> marks(const ChatInput& input) const override;
  text::Warnings warnings(const ChatInput& input) const override;

 private:
  const text::ChatTemplate& of(const ChatInput& input) const;

  text::ChatTemplate template_;
  std::map<std::string, text::ChatTemplate, std::less<>> named_;
};

// Refuses every chat with 501 and `why`.
std::unique_ptr<ChatFormat> make_refusing_chat(std::string why);

}  // namespace kvasir::serve
