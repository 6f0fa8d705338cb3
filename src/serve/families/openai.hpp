// What the dialects of OpenAI's older APIs share: chats, completions and what this server adds in their form.
#pragma once

#include <memory>

#include "serve/dialect.hpp"

namespace kvasir::serve {

std::unique_ptr<AnswerWriter> openai_writer(const AnswerInfo& info);

}  // namespace kvasir::serve
