// Prompts of `kvasir eval answers` and `tasks` as tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/eval/subject.hpp"
#include "text/chat.hpp"

namespace kvasir::cli {

class EvalPrompts {
 public:
  // chat: a prompt is a message of the user, in the chat template of the model's file; else it is a text that goes on.
  // Throws Error where there is no template. The subject outlives this.
  EvalPrompts(const lab::eval::Subject& subject, bool chat);
  std::vector<std::int32_t> ids(const std::string& prompt) const;

 private:
  const text::Tokenizer& tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_;
};

}  // namespace kvasir::cli
