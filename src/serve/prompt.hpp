// From prompts as clients write them to token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/service.hpp"
#include "serve/encoded_prompt.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

struct PromptLimits {
  std::int64_t context = 0;
  std::int64_t most = 0;  // of the server; 0: none
};

// One per prompt. A chat is rendered first, and what its messages hold is text whatever it spells; in other prompts
// control tokens that are written out become those tokens. BOS is added when the vocabulary wants one and the text does
// not begin with it. Throws ApiException: no tokenizer or no template for text (501), nothing in it (400), more tokens
// than the context holds (400 context_length_exceeded) or the server takes (413). With a memory the assistant's turns
// of a chat hold the tokens that were generated for `tenant` (serve/turns.hpp).
std::vector<EncodedPrompt> encode_prompts(const ApiRequest& request, const text::Tokenizer* tokenizer,
                                          const ChatFormat* chat, const PromptLimits& limits,
                                          TurnMemory* memory = nullptr, std::string_view tenant = {});

// The byte of prompt.text at which token `index` begins. Nothing when the ids do not spell the text byte for byte.
std::optional<std::size_t> byte_of_token(const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                                         std::size_t index);

// The control tokens that are part of the text of answers to `input`.
std::vector<std::int32_t> shown_tokens(const ChatFormat& chat, const ChatInput& input,
                                       const text::Tokenizer& tokenizer);

// The bytes of a prompt as `echo` shows them.
std::string echo_text(const Prompt& prompt, const text::Tokenizer* tokenizer);

}  // namespace kvasir::serve
