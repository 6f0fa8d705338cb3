// Fields of the APIs, and of other servers that speak them, that would change the answer and that this server does not
// have: nothing of that kind is ignored in silence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/body.hpp"

namespace kvasir::serve {

struct ForeignField {
  std::string_view name;     // of the body, or "OBJECT.FIELD"
  std::string_view neutral;  // JSON texts that change nothing, separated by blanks; null always is one
  bool refused;              // or else a warning says that it does nothing
  std::string_view why;
};

std::span<const ForeignField> openai_foreign_fields();  // chats, completions and what llama.cpp and vLLM add to them
std::span<const ForeignField> responses_foreign_fields();
std::span<const ForeignField> messages_foreign_fields();
std::span<const ForeignField> ollama_foreign_fields();

// Throws ApiException(400) for fields that are refused; the others are said in `warnings`.
void check_foreign(const Fields& fields, std::span<const ForeignField> foreign, std::vector<std::string>& warnings);

}  // namespace kvasir::serve
