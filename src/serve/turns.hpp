// Chats whose assistant's turns hold the tokens that were generated, not those that their text would be encoded to.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "serve/encoded_prompt.hpp"
#include "text/chat.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::serve {

// As Tokenizer::encode with parse_special and a BOS where the vocabulary wants one, but: where a prompt of `tenant`
// ended that began as this one does, and an answer follows that was generated there, the answer's own ids stand for its
// text. These ids spell the text byte for byte, and none of them is a control token or ends texts; what the template
// itself writes as such tokens stays that. An answer is recognised when the text goes on with all of it, white space at
// its end aside, and no word of the text goes on behind; or when the text goes on with its beginning and then with a
// control token (a stop string, or a client that cut it). Of several the one is taken that spells most.
//
// Time is linear in the text, plus the answers that are remembered at places of it.
EncodedPrompt encode_turns(text::Prompt prompt, const text::Tokenizer& tokenizer, TurnMemory& memory,
                           std::string_view tenant);

// The answer `ids` to what encode_turns returned. Kept is what stands before the first control token.
void remember_turn(TurnMemory& memory, const text::Tokenizer& tokenizer, std::string_view tenant,
                   const EncodedPrompt& prompt, std::span<const std::int32_t> ids);

}  // namespace kvasir::serve
