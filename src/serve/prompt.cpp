#include "serve/prompt.hpp"

#include <fmt/format.h>

namespace kvasir::serve {
namespace {

[[noreturn]] void cannot(std::string message) {
  throw ApiException({.status = 501, .message = std::move(message), .code = "unsupported"});
}

void check_length(std::size_t tokens, const PromptLimits& limits, const char* field) {
  const auto n = static_cast<std::int64_t>(tokens);
  if (n == 0) throw ApiException({.message = fmt::format("'{}': holds no token", field), .param = field});
  if (n >= limits.context)
    throw ApiException(
        {.message = fmt::format("the maximum context length is {} tokens, '{}' has {}", limits.context, field, n),
         .param = field,
         .code = "context_length_exceeded"});
  if (limits.most > 0 && n > limits.most)
    throw ApiException(
        {.status = 413,
         .message = fmt::format("'{}' has {} tokens, this server takes at most {}", field, n, limits.most),
         .param = field,
         .code = "prompt_too_long"});
}

}  // namespace

std::vector<std::int32_t> encode_text(const text::Tokenizer& tokenizer, std::string_view text, bool parse_special,
                                      bool add_bos) {
  const bool has_bos = tokenizer.bos() >= 0 && parse_special && text.starts_with(tokenizer.piece(tokenizer.bos()));
  return tokenizer.encode(text, {.add_bos = add_bos && !has_bos, .parse_special = parse_special});
}

std::vector<std::vector<std::int32_t>> encode_prompts(const ApiRequest& request, const text::Tokenizer* tokenizer,
                                                      const ChatFormat* chat, const PromptLimits& limits) {
  std::vector<std::vector<std::int32_t>> all;
  const auto encode = [&](std::string_view text) {
    if (!tokenizer) cannot("this model has no tokenizer, expected token ids");
    return encode_text(*tokenizer, text, true, tokenizer->add_bos());
  };
  if (request.is_chat) {
    if (!chat) cannot("this model has no chat template");
    all.push_back(encode(chat->render(request.chat)));
    check_length(all.back().size(), limits, "messages");
  }
  for (const Prompt& prompt : request.prompts) {
    all.push_back(prompt.is_ids ? prompt.ids : encode(prompt.text));
    check_length(all.back().size(), limits, "prompt");
  }
  return all;
}

std::string echo_text(const Prompt& prompt, const text::Tokenizer* tokenizer) {
  if (!prompt.is_ids) return prompt.text;
  return tokenizer ? tokenizer->decode(prompt.ids) : std::string();
}

}  // namespace kvasir::serve
