// Prompts of chats in which earlier answers keep the tokens that were generated.
//
//   prompt text    ... user turn | answer 1 (text) | user turn | answer 2 (text) | user turn ...
//   token ids      encoded       | as generated    | encoded   | as generated    | encoded
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "serve/chat.hpp"
#include "serve/encoded_prompt.hpp"
#include "text/chat.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::serve {

// Encodes like Tokenizer::encode with parse_special, and with a BOS if the vocabulary wants one. The exception: an
// earlier prompt of `tenant` was the beginning of this one, and the text continues with an answer to that prompt. Then
// the answer keeps its own ids.
//
// The text continues with an answer if one of these holds:
//   * All of the answer follows, except for white space at its end, and it does not end within a word of the text.
//   * A beginning of the answer follows, then a control token. (A stop string or the client cut the answer.)
//   * At least 32 tokens of it follow, then something else, but for a little in front of that. (A template writes a line
//     break that the model left out.)
// If several answers fit, the one that covers most text is taken. Its ids spell the text byte for byte. None of them is
// a control token or ends a text; the control tokens that the template writes are encoded as always.
//
// With `history` an answer also comes back where the template writes it in another way (blanks in arguments, ids, marks
// around calls): if the message of the conversation says what the client was given, the answer's ids, marks of calls
// and of reasoning included, stand in the place of what the template makes of the message. Reasoning that the template
// leaves out of earlier turns stays out. `text` is then the text of the ids.
//
// Pictures stand where `pictures` says, in bytes of the prompt's text; marks in the text tell them apart.
//
// Time is linear in the text and in the answers that are remembered at places of it.
struct History {
  const Json& messages;
  std::function<std::string(std::size_t n)> head;  // the prompt of the first n of them; throws Error
};

EncodedPrompt encode_turns(text::Prompt prompt, const text::Tokenizer& tokenizer, TurnMemory& memory,
                           std::string_view tenant, const History* history = nullptr,
                           std::span<const run::PicturePlace> pictures = {});

// Remembers `ids` as an answer to `prompt`, which encode_turns returned, up to a token that ends a text.
void remember_turn(TurnMemory& memory, const text::Tokenizer& tokenizer, std::string_view tenant,
                   const EncodedPrompt& prompt, std::span<const std::int32_t> ids);
// Says what a client was given for that answer, which becomes message `index` of the conversation. Nothing where the
// answer holds control tokens other than `shown`, which are part of its text.
void describe_turn(TurnMemory& memory, const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                   std::span<const std::int32_t> ids, std::span<const std::int32_t> shown, const ChatDelta& given,
                   std::size_t index);

}  // namespace kvasir::serve
