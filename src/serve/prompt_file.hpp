// Prompts that stand in a file: for `serve --warm` and `verify --prompts`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "run/service.hpp"

namespace kvasir::run {
class Pictures;  // run/pictures.hpp
}

namespace kvasir::serve {

class ChatFormat;  // serve/chat.hpp

// One per line: an object as the body of /v1/warm (`prompt` or `messages`, `tools`, `ttl`, `pin`), which may name the
// `tenant` that it is for, or any other text, which is the prompt itself. Lines of white space are left out.
// `answered`: a chat ends where the answer begins, unless its line says otherwise. `chat` and `pictures` may be null.
// Throws Error(kBadInput) that names `file` and the line; a file without prompts is one.
std::vector<run::ServiceRequest> read_prompt_file(const std::string& file, const run::ModelCard& card,
                                                  const text::Tokenizer& tokenizer, const ChatFormat* chat,
                                                  bool answered, run::Pictures* pictures = nullptr);

}  // namespace kvasir::serve
