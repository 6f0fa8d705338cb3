#include "cli/eval_prompts.hpp"

#include <nlohmann/json.hpp>

#include "text/conversation.hpp"
#include "text/prompt.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::cli {

EvalPrompts::EvalPrompts(const lab::eval::Subject& subject, bool chat) : tokenizer_(subject.tokenizer()) {
  if (!chat) return;
  const auto piece = [&](std::int32_t id) { return id >= 0 ? std::string(tokenizer_.piece(id)) : std::string(); };
  chat_ = std::make_unique<text::ChatTemplate>(
      text::chat_template_text(subject.chat_template(), "", subject.options().model), piece(tokenizer_.bos()),
      piece(tokenizer_.eos()));
}

std::vector<std::int32_t> EvalPrompts::ids(const std::string& prompt) const {
  if (!chat_) return text::encode_prompt(tokenizer_, prompt, {.add_bos = tokenizer_.add_bos()});
  text::Conversation c;
  c.messages.push_back({{"role", "user"}, {"content", unicode::to_valid_utf8(prompt)}});
  return text::encode_prompt(tokenizer_, chat_->prompt(c, tokenizer_.control_names()));
}

}  // namespace kvasir::cli
