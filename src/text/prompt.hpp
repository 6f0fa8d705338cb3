// Prompts to token ids, the same way wherever they are read.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/chat.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::text {

// Tokenizer::encode, but without a second BOS where the text begins with one that is read as such.
std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options);

// What a chat template wrote: its control tokens are those tokens, what the conversation says is text, and BOS stands
// in front where the vocabulary wants one.
std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const Prompt& prompt);

}  // namespace kvasir::text
