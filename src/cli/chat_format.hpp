// The chat format of a model, as the server and the tools have it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/template_chat.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::cli {

// By the template of the file `path` (--chat-template) or, when that is empty, `from_model`; null without either, so
// that chats are refused and not the server. `named`: further templates of the model, which are left out where they
// cannot be read. `response`: the model's response template, or empty. Throws what ChatTemplate and reading a file
// throw, with the file's name.
std::unique_ptr<serve::TemplateChat> open_chat(const std::string& from_model, const text::Tokenizer& tokenizer,
                                               const std::string& path, const std::string& model,
                                               const std::vector<std::pair<std::string, std::string>>& named = {},
                                               const std::string& response = {});

}  // namespace kvasir::cli
